/**
 * The whole idea in one page: an agent, users to talk to, a reward, train().
 *   npx tsx examples/minimal.ts [steps]
 */
import { ConversationEnvironment, MultiTurnAgent, rewardFunction, train } from "stateset-agents";
import { stepsOr } from "./shared/steps.ts";

// Without a model of your own, the bundled starter model answers.
const agent = new MultiTurnAgent({
  systemPrompt: "You are a helpful customer support agent.",
  sampling: { maxTokens: 48 },
});

const environment = new ConversationEnvironment({
  scenarios: [
    { id: "late", userResponses: ["My order is late.", "It is number 48213.", "How long will it take?"] },
    { id: "crash", userResponses: ["The app keeps crashing.", "It's an iPhone 12."] },
    { id: "cancel", userResponses: ["I want to cancel my subscription.", "Yes, I'm sure."] },
    { id: "twice", userResponses: ["I was charged twice on my credit card.", "My name is Anna Miller."] },
  ],
});

// A reward sees the whole conversation. This one wants an apology or thanks in every reply, in at most fifteen words.
const reward = rewardFunction({ name: "courteous" }, ({ turns }) => {
  const replies = turns.filter((turn) => turn.role === "assistant").map((turn) => turn.content);
  const good = replies.filter((text) => /\b(sorry|apologi[sz]e|thank)/i.test(text) && text.split(/\s+/).length <= 15);
  return good.length / replies.length;
});

const { run } = await train({
  agent,
  environment,
  reward,
  steps: stepsOr(12),
  learningRate: 2e-4,
  dir: false, // keep no files; leave it out to get runs/<name> with metrics, checkpoints and the trained agent
  callbacks: { onStepEnd: ({ step, metrics }) => console.log(`step ${step}: reward ${metrics.reward?.toFixed(3)}`) },
});

const question = "Hi, my order is two weeks late.";
console.log(`\n${question}\n→ ${await agent.generateResponse([{ role: "user", content: question }])}`);
console.log(`reward ${run.metrics[0]?.reward?.toFixed(2)} → ${run.metrics.at(-1)?.reward?.toFixed(2)}`);
await agent.close();
