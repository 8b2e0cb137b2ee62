/**
 * A shop's agent that learns to look up, act, refuse and ask back, from the final state of the shop alone.
 *   npx tsx examples/retail.ts [steps]
 * 150 steps take a few minutes on two cores; docs/results/tools.md has what they give.
 */
import { evaluate, MultiTurnAgent, train } from "stateset-agents";
import { StateReward } from "stateset-agents/rewards";
import { retail, taskClasses } from "stateset-agents/tools";
import { stepsOr } from "./shared/steps.ts";

const steps = stepsOr(150);

// The shop shows its tools and runs them: the agent needs none of its own.
const agent = new MultiTurnAgent({ systemPrompt: "You are a shop assistant.", sampling: { maxTokens: 48 } });
const environment = retail({ level: 1, tasks: 32, maxTurns: 6 });
// Other orders, customers and phrasings than in training.
const heldOut = retail({ level: 1, heldOut: true, tasks: 16, maxTurns: 6 });
// 1 where the final state, the writes and the words are those that were asked for, else 0.
const reward = new StateReward();

async function measure(when: string) {
  const { scenarios, groups } = await evaluate({ agent, environment: heldOut, reward, samples: 2 });
  const of = (topic: string) => scenarios.filter(({ id }) => id.includes(`-${topic}-`)).map(({ mean }) => mean);
  const share = (values: number[]) => (values.reduce((a, b) => a + b, 0) / values.length).toFixed(2);
  console.log(`${when}: ${taskClasses.map((topic) => `${topic} ${share(of(topic))}`).join(", ")}`);
  return groups[1]!.trajectories[0]!;
}

await measure("before");
await train({
  ...{ agent, environment, reward, steps },
  dir: false, // keep no files
  callbacks: { onStepEnd: ({ step, metrics }) => console.log(`step ${step}: reward ${metrics.reward?.toFixed(3)}`) },
});
const { turns, metadata } = await measure("after");

for (const { role, content, tool_calls: [call] = [] } of turns)
  console.log(`${role}: ${call ? `${call.function.name} ${call.function.arguments}` : content}`);
console.log(metadata.success ? "solved" : `not solved: ${metadata.why}`);
await agent.close();
