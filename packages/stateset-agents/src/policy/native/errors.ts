import { EngineError } from "@stateset-agents/engine";
import { type ErrorCode, StatesetError } from "../../error.ts";

const codes: Record<string, ErrorCode> = {
  ENGINE_UNAVAILABLE: "ENGINE_UNAVAILABLE",
  CLOSED: "POLICY_CLOSED",
  INVALID_CONFIG: "MODEL_INVALID",
  INVALID_INPUT: "INVALID_OPTION",
  CONTEXT_OVERFLOW: "CONTEXT_OVERFLOW",
  OUT_OF_MEMORY: "OUT_OF_MEMORY",
  NOT_FINITE: "NOT_FINITE",
  NOT_TRAINABLE: "NOT_TRAINABLE",
};

/** An error of the engine as one of the library; others as they are. */
export function toStatesetError(thrown: unknown): unknown {
  if (!(thrown instanceof EngineError)) return thrown;
  return new StatesetError(codes[thrown.code] ?? "ENGINE_FAILED", thrown.message, { cause: thrown });
}

/** Runs work on the engine; its errors become those of the library. */
export async function onEngine<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    throw toStatesetError(thrown);
  }
}
