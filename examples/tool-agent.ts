/**
 * An agent that looks things up: a tool, customers who ask, a reward for the right call and the right answer.
 *   npx tsx examples/tool-agent.ts [steps]
 */
import { ConversationEnvironment, rewardFunction, train } from "stateset-agents";
import { ToolAgent, tool } from "stateset-agents/tools";
import { z } from "zod";
import { stepsOr } from "./shared/steps.ts";

const orders: Record<string, string> = { 4821: "shipped", 5930: "open", 6114: "delivered", 7207: "lost" };

const getOrder = tool({
  name: "get_order",
  description: "The state of an order",
  parameters: z.object({ order_id: z.string() }),
  execute: ({ order_id }) => ({ order_id, status: orders[order_id] ?? "unknown" }),
});

// The agent runs the tool by itself: it calls, reads the result, and answers.
const agent = new ToolAgent({
  systemPrompt: "You are a shop assistant.",
  tools: [getOrder],
  maxToolSteps: 1,
  sampling: { maxTokens: 40 },
});

const environment = new ConversationEnvironment({
  scenarios: Object.entries(orders).map(([id, expected]) => ({
    id,
    expected,
    userResponses: [`Where is my order ${id}?`],
  })),
});

// Half for a call with the right number, half for an answer that tells the state.
const reward = rewardFunction({ name: "found" }, ({ turns, scenario }) => {
  const called = turns.some(({ role, content }) => role === "tool" && content.includes(`"${scenario?.id}"`));
  const told = turns.at(-1)!.content.includes(scenario?.expected ?? "?");
  return { score: (Number(called) + Number(told)) / 2, breakdown: { called: Number(called), told: Number(told) } };
});

const { run } = await train({
  agent,
  environment,
  reward,
  steps: stepsOr(20),
  learningRate: 3e-4,
  dir: false, // keep no files
  callbacks: { onStepEnd: ({ step, metrics }) => console.log(`step ${step}: reward ${metrics.reward?.toFixed(3)}`) },
});

const { turns } = await agent.respond([{ role: "user", content: "Where is my order 4821?" }]);
for (const { role, content, tool_calls = [] } of turns)
  console.log(
    `${role}: ${tool_calls.map((call) => `${call.function.name} ${call.function.arguments}`).join() || content}`,
  );
console.log(`reward ${run.metrics[0]?.reward?.toFixed(2)} → ${run.metrics.at(-1)?.reward?.toFixed(2)}`);
await agent.close();
