import { EngineError } from "@stateset-agents/engine";
import { type ErrorCode, StatesetError } from "../../error.ts";

/** Every code of the engine, and the library's for it. */
export const engineCodes: Readonly<Record<string, ErrorCode>> = {
  ENGINE_UNAVAILABLE: "ENGINE_UNAVAILABLE",
  ENGINE_FAILED: "ENGINE_FAILED",
  CLOSED: "POLICY_CLOSED",
  BUSY: "BUSY",
  DRAIN_TIMEOUT: "DRAIN_TIMEOUT",
  WEIGHTS_INCOMPLETE: "WEIGHTS_INCOMPLETE",
  INVALID_CONFIG: "MODEL_INVALID",
  UNKNOWN_TENSOR: "MODEL_INVALID",
  INVALID_INPUT: "INVALID_OPTION",
  CONTEXT_OVERFLOW: "CONTEXT_OVERFLOW",
  CONTEXT_LENGTH: "CONTEXT_OVERFLOW",
  OUT_OF_MEMORY: "OUT_OF_MEMORY",
  NOT_FINITE: "NOT_FINITE",
  CONSTRAINT_STUCK: "ENGINE_FAILED",
};

/** An error of the engine as one of the library; others as they are. */
export function toStatesetError(thrown: unknown): unknown {
  if (!(thrown instanceof EngineError)) return thrown;
  return new StatesetError(engineCodes[thrown.code] ?? "ENGINE_FAILED", thrown.message, { cause: thrown });
}

/** Runs work on the engine; its errors become those of the library. */
export async function onEngine<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    throw toStatesetError(thrown);
  }
}
