/**
 * An agent that uses the tools of an MCP server, and learns to: mcp-server.mjs, started here, knows the orders.
 *   npm install @modelcontextprotocol/client @modelcontextprotocol/server
 *   npx tsx examples/mcp-agent.ts [steps]
 */
import { fileURLToPath } from "node:url";
import { ConversationEnvironment, rewardFunction, train } from "stateset-agents";
import { mcpTools, ToolAgent } from "stateset-agents/tools";
import { stepsOr } from "./shared/steps.ts";

const steps = stepsOr(20);

const orders = await mcpTools({
  command: process.execPath,
  args: [fileURLToPath(new URL("mcp-server.mjs", import.meta.url))],
});
console.log(`tools: ${orders.tools.map(({ definition }) => definition.function.name).join(", ")}`);

const agent = new ToolAgent({
  systemPrompt: "You are a shop assistant.",
  tools: orders.tools,
  maxToolSteps: 1,
  sampling: { maxTokens: 40 },
});

const states: Record<string, string> = { 4821: "shipped", 5930: "open", 6114: "delivered", 7207: "lost" };
const environment = new ConversationEnvironment({
  scenarios: Object.entries(states).map(([id, expected]) => ({
    id,
    expected,
    userResponses: [`Where is my order ${id}?`],
  })),
});

// Half for a call that found the order, half for an answer that tells its state.
const reward = rewardFunction({ name: "found" }, ({ turns, scenario }) => {
  const expected = scenario?.expected ?? "?";
  const found = turns.some(({ role, content }) => role === "tool" && content.includes(expected));
  return (Number(found) + Number(turns.at(-1)!.content.includes(expected))) / 2;
});

try {
  await train({
    agent,
    environment,
    reward,
    steps,
    learningRate: 3e-4,
    dir: false, // keep no files
    callbacks: { onStepEnd: ({ step, metrics }) => console.log(`step ${step}: reward ${metrics.reward?.toFixed(3)}`) },
  });
  const { turns } = await agent.respond([{ role: "user", content: "Where is my order 4821?" }]);
  for (const { role, content, tool_calls } of turns)
    console.log(`${role}: ${tool_calls?.[0]?.function.arguments ?? content}`);
} finally {
  await agent.close();
  await orders.close();
}
