/**
 * Train an agent, serve it, ask it as any client of OpenAI's API would.
 *   npx tsx examples/serve.ts [steps]
 */
import OpenAI from "openai";
import { ConversationEnvironment, MultiTurnAgent, rewardFunction, train } from "stateset-agents";
import { createServer, staticKeys } from "stateset-agents/server";
import { stepsOr } from "./shared/steps.ts";

const agent = new MultiTurnAgent({ systemPrompt: "You are a support agent.", sampling: { maxTokens: 32 } });
await train({
  agent,
  environment: new ConversationEnvironment({
    scenarios: ["My order is late.", "The app keeps crashing.", "I was charged twice."].map((text) => ({
      id: text,
      userResponses: [text],
    })),
  }),
  reward: rewardFunction({ name: "thanks" }, ({ turns }) => Number(/thank/i.test(turns.at(-1)!.content))),
  steps: stepsOr(8),
  learningRate: 2e-4,
  dir: false, // keep no files
  callbacks: { onStepEnd: ({ step, metrics }) => console.log(`step ${step}: reward ${metrics.reward?.toFixed(3)}`) },
});

const server = await createServer({ models: { support: agent }, keys: staticKeys(["my-key"]) });
const { url } = await server.listen({ port: 0 });
console.log(`\nserving on ${url}/v1`);

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "my-key" });
const messages = [{ role: "user" as const, content: "Hi, my order is two weeks late." }];
for await (const { choices } of await client.chat.completions.create({ model: "support", messages, stream: true }))
  process.stdout.write(choices[0]?.delta.content ?? "");
console.log();

await server.drain(); // a real server stops here only when it is told to
await agent.close();
