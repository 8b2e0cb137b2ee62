import type { TemplateVariables } from "../conversation/template-variables.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { TokenChain, Turn } from "../conversation/trajectory.ts";
import type { Scenario } from "../environment/scenario.ts";

export interface ConversationOptions {
  /** Its systemPrompt, context, tools and templateVariables go into the prompt. */
  scenario?: Scenario;
  /** In place of the scenario's or the agent's. */
  tools?: readonly ToolDefinition[];
  /** Shown beside them: what the environment runs. Calls to these end a reply. */
  environmentTools?: readonly ToolDefinition[];
  /** Go before the scenario's, which go before the agent's, name by name. */
  templateVariables?: TemplateVariables;
  /** Overrides the agent's own sampling temperature. */
  temperature?: number | undefined;
  /** Overrides the agent's own limit on tokens per reply. */
  maxTokens?: number | undefined;
  /** Default for reply() calls that name no seed. Together with the turn number it fixes what is sampled. */
  seed?: number;
  /** Whether calls are held to their schemas. Default: as the agent has it. */
  constrain?: boolean | undefined;
  /** False: sampled tokens are recorded but not marked for learning. Default true. */
  learn?: boolean;
  /** The conversation will be trained on before the weights change: an engine that can keeps what it computes of it. Default false. */
  keepActivations?: boolean;
}

export interface ReplyOptions {
  seed?: number;
  signal?: AbortSignal;
  /** Text as it becomes certain: without the reasoning where that is kept apart, without calls where they are read. */
  onText?: (text: string) => void;
  /** Every turn of the reply once it is whole. */
  onTurn?: (turn: Turn) => void;
}

/** The outcome of one reply() call. */
export type Reply =
  | {
      kind: "reply";
      /** The assistant turn. Append it to the messages (environment.step does) before the next reply(). */
      turn: Turn;
      /** All that was said: calls and their results before it where tools were run, and `turn` last. Append these where there are several. */
      turns: readonly Turn[];
      finishReason: "stop" | "length";
      promptTokens: number;
      sampledTokens: number;
      stub: boolean;
    }
  /** The prompt leaves no room for a reply, and no context-window strategy is set or it could not make room. */
  | {
      kind: "context-full";
      promptTokens: number /** Calls and results before there was no more room. */;
      turns: readonly Turn[];
    };

/**
 * One conversation of an agent with its tokens. Used by rollouts and by generateResponse alike.
 * `messages` is the whole conversation without the agent's system prompt; a sampled token's turn number is
 * `messages.length` at the time of the call, that is, the index the reply will have in Trajectory.turns.
 */
export interface ConversationSession {
  reply(messages: readonly Turn[], options?: ReplyOptions): Promise<Reply>;
  /** Everything sampled so far; at least one chain after the first reply. */
  chains(): TokenChain[];
  /** A tool's result as far as the agent reads it, with a note of what is cut off. For results of the environment's tools. */
  cutResult?(text: string): string;
  /** The temperature all replies are sampled at. */
  readonly temperature: number;
  /** True once any reply was made up by a stub. */
  readonly stub: boolean;
}
