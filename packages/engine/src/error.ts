/**
 * An error of the engine. Codes: ENGINE_UNAVAILABLE (no binary for this machine), ENGINE_FAILED (a bug, caught), CLOSED, INVALID_CONFIG,
 * INVALID_INPUT, UNKNOWN_TENSOR, CONTEXT_OVERFLOW, CONTEXT_LENGTH, OUT_OF_MEMORY, NOT_FINITE, BUSY (more requests than it takes at a
 * time), DRAIN_TIMEOUT (no room for two versions of the weights, and replies ran on), WEIGHTS_INCOMPLETE (a load was broken off).
 */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** Errors come from the native side as plain `Error`s with a code. */
  static from(thrown: unknown): EngineError {
    if (thrown instanceof EngineError) return thrown;
    const { code, message } = thrown as { code?: unknown; message?: unknown };
    return new EngineError(typeof code === "string" ? code : "ENGINE_FAILED", String(message ?? thrown), {
      cause: thrown,
    });
  }
}
