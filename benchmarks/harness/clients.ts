/** Two agents as people write them, each with the tools of an errand and streaming on. Nothing in them knows of training. */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, tool as agentTool, OpenAIChatCompletionsModel, Runner } from "@openai/agents";
import { tool as aiTool, jsonSchema, stepCountIs, streamText } from "ai";
import OpenAI from "openai";
import type { HarnessRun } from "stateset-agents";
import type { Errand } from "./task.ts";

type Access = Pick<HarnessRun, "baseURL" | "apiKey" | "model" | "signal">;
/** The agent's answer to an errand. */
export type Client = (access: Access, errand: Errand) => Promise<string>;

const instructions = "You are a shop assistant.";
const maxSteps = 4;

const aiSdk: Client = async ({ baseURL, apiKey, model, signal }, { question, tools }) => {
  const provider = createOpenAICompatible({ name: "policy", baseURL, apiKey });
  const result = streamText({
    model: provider.chatModel(model),
    system: instructions,
    prompt: question,
    tools: Object.fromEntries(
      tools.map(({ name, description, parameters, execute }) => [
        name,
        aiTool({ description, inputSchema: jsonSchema(parameters), execute }),
      ]),
    ),
    stopWhen: stepCountIs(maxSteps),
    maxRetries: 0,
    abortSignal: signal,
    onError: () => {},
  });
  return await result.text;
};

const agentsJs: Client = async ({ baseURL, apiKey, model, signal }, { question, tools }) => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const agent = new Agent({
    name: "shop",
    instructions,
    model: new OpenAIChatCompletionsModel(client, model),
    tools: tools.map(({ name, description, parameters, execute }) =>
      agentTool({ name, description, parameters: parameters as never, strict: false, execute }),
    ),
  });
  const runner = new Runner({ tracingDisabled: true });
  const result = await runner.run(agent, question, { stream: true, maxTurns: maxSteps, signal });
  await result.completed;
  return typeof result.finalOutput === "string" ? result.finalOutput : "";
};

export const clients = { "ai-sdk": aiSdk, "agents-js": agentsJs } as const;
export type ClientName = keyof typeof clients;
