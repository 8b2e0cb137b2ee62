import type { Message } from "../conversation/message.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { Turn } from "../conversation/trajectory.ts";
import type { Sampling } from "../policy/policy.ts";

/** A call of the model as it was recorded, before its last byte left. */
export interface CapturedCall {
  scenarioId: string;
  trajectoryId: string;
  attempt: number;
  /** As the client gave them. */
  messages: readonly Message[];
  tools: readonly ToolDefinition[];
  /** As it was sampled, whatever was asked for. */
  sampling: Readonly<Sampling>;
  seed: number;
  promptTokens: Int32Array;
  tokens: Int32Array;
  logprobs: Float32Array;
  version: string;
  /** Undefined where the client broke it off. */
  reply: Turn | undefined;
  /** Whether it went on from tokens that were recorded before. */
  chain: "continued" | "started";
  /** From the arrival of the request. */
  timing: { queuedMs: number; firstTokenMs: number; durationMs: number };
}
