import { z } from "zod";
import type { MessageInput } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { describeClass } from "../describe.ts";
import type { Scenario } from "../environment/scenario.ts";
import { parseOptions } from "../options.ts";
import type { Policy, Sampling } from "../policy/policy.ts";
import type { ConversationOptions, ConversationSession } from "./session.ts";

/** What a caller knows beyond the messages. Hooks get it too. */
export interface AgentContext {
  /** Tells conversations apart in memory. */
  conversationId?: string;
  seed?: number;
  signal?: AbortSignal;
  /** Told of every turn of the reply once it is whole: calls and results of tools, and the answer. */
  onTurn?: (turn: Turn) => void;
  /** Whatever hooks of your own want to know; nothing else reads it. */
  data?: unknown;
}

/** What hooks are told. */
export interface HookContext extends AgentContext {
  /** The one that is played: in training and evaluation. */
  scenario?: Scenario;
}

const contextSchema = z.strictObject({
  conversationId: z.string().optional(),
  seed: z.int().min(0).optional(),
  signal: z.instanceof(AbortSignal).optional(),
  onTurn: z
    .custom<AgentContext["onTurn"]>((value) => typeof value === "function", "a function was expected")
    .optional(),
  data: z.unknown().optional(),
});

export function checkContext(context: AgentContext): void {
  parseOptions(contextSchema, context, "the context of a reply");
}

/** What every agent offers: to the user, replies; to training, its policy and token-recording conversations. */
export abstract class Agent {
  /** Loads the model. Safe to call more than once. */
  abstract initialize(): Promise<void>;

  /** Throws until initialize() is done. */
  abstract get policy(): Policy;

  /** How replies are sampled where nothing else is said. */
  abstract get sampling(): Readonly<Sampling>;

  /** What it is, for config.json: enough to tell it from another. */
  describe(): Record<string, unknown> {
    return { ...describeClass(this), sampling: this.sampling };
  }

  /** The reply's text. */
  abstract generateResponse(messages: readonly MessageInput[], context?: AgentContext): Promise<string>;

  /** The reply's text in pieces, as it is sampled. */
  abstract stream(messages: readonly MessageInput[], context?: AgentContext): AsyncIterable<string>;

  /** Answers one more user message and returns the assistant turn. */
  abstract processTurn(messages: readonly MessageInput[], userInput: string, context?: AgentContext): Promise<Turn>;

  abstract startConversation(options?: ConversationOptions): ConversationSession;

  /** Writes the model in Hugging Face layout (an adapter in PEFT layout) and `agent.json` beside it. */
  abstract save(dir: string, options?: { merge?: boolean; dtype?: "f32" | "bf16" }): Promise<void>;

  abstract close(): Promise<void>;
}
