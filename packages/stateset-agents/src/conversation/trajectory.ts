import type { Failure } from "./failure.ts";
import type { Message } from "./message.ts";
import type { TemplateVariables } from "./template-variables.ts";
import type { ToolDefinition } from "./tool-definition.ts";

/** A message with what was learnt about it. Index i of `Trajectory.turns` is the turn number used everywhere. */
export interface Turn extends Message {
  /** The environment's own reward for this turn. It counts where the run has no reward function, or as an `EnvironmentReward`. */
  reward?: number;
  metadata?: Record<string, unknown>;
  /** What the policy sampled for this turn, special tokens printed; the message may have been parsed or edited since. */
  sampled?: {
    text: string;
    finishReason: "stop" | "length";
    /**
     * Where calls were held to their schemas: tokens for which something could not be drawn; those of them for which one choice was left,
     * which do not learn; and the probability of what could not be drawn, added up over them.
     */
    constrained?: { tokens: number; forced: number; removed: number };
  };
  /** Part of what the conversation began with, as the scenario wrote it: nothing the agent said, and never learnt from. */
  given?: true;
}

/** What a constraint did to a reply. */
export type ConstraintNotes = NonNullable<NonNullable<Turn["sampled"]>["constrained"]>;

/** Whether a turn is something the agent said. */
export function isReply({ role, given }: Pick<Turn, "role" | "given">): boolean {
  return role === "assistant" && !given;
}

/** What a turn carries beside its message, for the library alone: chat templates never see it. */
export const turnNotes: ReadonlySet<string> = new Set<keyof Turn>(["reward", "metadata", "sampled", "given", "weight"]);

/** Why a chain began instead of the one before going on. */
export type ChainStart =
  | "first-prompt"
  /** An earlier message is no longer there, or says something else: a context window was cut, say. */
  | "messages-changed"
  /** The reply is not what was sampled: a hook redacted it, say. */
  | "reply-edited"
  /** The reply ended at a stop text, whose tokens the chain holds and the message does not. */
  | "stop-text"
  /** The chat template prints earlier messages otherwise than before. */
  | "template-rewrote"
  | "tools-changed"
  | "variables-changed";

/** What the policy was shown: the agent's system prompt and what hooks and a context window made of the conversation included. */
export interface SeenPrompt {
  messages: readonly Message[];
  tools?: readonly ToolDefinition[] | undefined;
  templateVariables?: TemplateVariables | undefined;
}

/**
 * A run of tokens that only ever grows: prompt, reply, next user message, reply, …
 * Recorded when sampled and never tokenised again. When a chat template rewrites the past, a new chain starts.
 * All arrays have the length of `tokens`.
 */
export interface TokenChain {
  tokens: Int32Array;
  /** Log-prob under the policy that sampled the token; 0 where the policy did not sample it. */
  logprobs: Float32Array;
  /** 1 on tokens the policy sampled and may learn from. */
  learn: Uint8Array;
  /** The turn a sampled token belongs to, -1 elsewhere. */
  turn: Int32Array;
  /** Log-prob under what was really drawn from, where more than the temperature shaped it (top-p, penalties, …); 0 where not sampled. */
  samplerLogprobs?: Float32Array;
  /** The weights that sampled its replies, by turn. A reply is sampled by one version from its first token to its last. */
  versions?: Readonly<Record<number, string>>;
  started?: ChainStart;
  /** What its last reply answers. */
  prompt?: SeenPrompt;
}

/** What a reward says of one conversation. */
export interface RewardResult {
  /** Of the whole conversation. In a Trajectory it is the total that everything learns from and shows: score + Σ turns. */
  score: number;
  /** One number per named part; for the user's eyes, for diagnostics and for multi-reward advantages. */
  breakdown: Record<string, number>;
  /** Rewards for single turns, by turn index. They are added to the score, unless `turnsInScore` says that they are part of it. */
  turns?: Record<number, number>;
  /** `turns` are parts of the score: they say when it was earned, and add nothing to it. In a Trajectory they always are. */
  turnsInScore?: true;
  metadata?: Record<string, unknown>;
}

/**
 * Why a conversation ended: its environment said so; the replies ran out; the last reply was cut at its token limit; the prompt left no
 * room for another; or the environment failed (`failure` says how).
 */
export type Ended = "done" | "max-turns" | "max-tokens" | "context-full" | "failed";

/** One whole conversation, as data. */
export interface Trajectory {
  id: string;
  scenarioId: string;
  turns: Turn[];
  chains: TokenChain[];
  reward: RewardResult;
  ended: Ended;
  /** Of the environment, which `ended` says too, or of the reward. */
  failure?: Failure;
  /** The weights that spoke, in order; one where they did not change meanwhile. */
  versions?: readonly string[];
  /** The temperature it was sampled at; scoring must use the same. */
  temperature: number;
  /** True when a stub produced it; such a trajectory can never be trained on. */
  stub: boolean;
  metadata: Record<string, unknown>;
}

/** Several conversations of one scenario: the unit group-relative advantages are computed over. */
export interface TrajectoryGroup {
  id: string;
  scenarioId: string;
  trajectories: Trajectory[];
}

/** True when a token limit cut it short: in one of its replies, or because the context was full. A failure is an end of its own. */
export function isCut({ turns, ended }: { turns: readonly Turn[]; ended: Ended }): boolean {
  if (ended === "failed") return false;
  return ended === "context-full" || turns.some(({ sampled }) => sampled?.finishReason === "length");
}
