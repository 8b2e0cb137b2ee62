import type { Message } from "../conversation/message.ts";
import type { TemplateVariables } from "../conversation/template-variables.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";

/** One situation to put the agent in. Environments add what they need; `id` is how results name it. */
export interface Scenario {
  id: string;
  topic?: string;
  /** What the agent should know beforehand; put after the system prompt. */
  context?: string;
  /** Replaces the agent's system prompt in this scenario. */
  systemPrompt?: string;
  /** What the agent can call in this scenario, in place of its own tools. */
  tools?: readonly ToolDefinition[];
  /** What the chat template is told in this scenario, beside what the agent tells it: `{ enable_thinking: false }`. */
  templateVariables?: TemplateVariables;
  /** What the agent is meant to achieve; read by TaskEnvironment and by rewards. */
  goal?: string;
  /** The right answer, for rewards that check one. */
  expected?: string;
  metadata?: Record<string, unknown>;
}

/** A scenario whose user turns are written beforehand. */
export interface ConversationScenario extends Scenario {
  /**
   * How the conversation began, where it has begun: the agent answers it when a message of the user or of a tool is its last. Never
   * learnt from.
   */
  messages?: readonly Message[];
  /** What the user says, in order; after `messages` where there are some. */
  userResponses: readonly string[];
}
