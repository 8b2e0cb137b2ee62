const marker = Symbol.for("stateset-agents.error");

/** Every code an error of this library can carry. Documented in docs/reference/errors.md, which is generated from this table. */
export const errorCodes = {
  INVALID_OPTION: "An option is unknown, missing or has a value that is not allowed.",
  TOOL_MISSING: "An agent was saved with tools whose code is not given now; the message names them.",
  MCP_FAILED:
    "An MCP server could not be started or reached, or what it said of its tools could not be read; or its client is not installed.",
  INVALID_SCENARIO: "A scenario is malformed.",
  INVALID_DATA: "A data file (JSONL, YAML, …) is malformed; the message names the file and the line.",
  INVALID_MESSAGE: "A conversation message is malformed.",
  MODEL_NOT_FOUND: "No model at that path or hub id.",
  MODEL_UNSUPPORTED: "The architecture, or a feature of it, is not supported by this engine.",
  MODEL_INVALID:
    "A model file is damaged or inconsistent: header, offsets, shapes, dtype, missing or surplus tensors, NaN.",
  TOKENIZER_INVALID: "The tokenizer or its chat template is missing, damaged or does not fit the model.",
  HUB_UNAVAILABLE: "The model hub could not be reached, refused access, or offline mode is on.",
  CONTEXT_OVERFLOW: "A sequence is longer than the model's context.",
  OUT_OF_MEMORY: "The work would not fit in memory; found before allocating.",
  ENGINE_UNAVAILABLE:
    "The engine is not there: the embedded one is not built or not available for this platform; or the PyTorch worker lacks Python, a package, a GPU or an address that answers.",
  ENGINE_FAILED: "The engine reported an internal failure.",
  WORKER_LOST:
    "The PyTorch worker ended, stopped answering or broke the protocol; the message names the rank, the signal or exit code and its last lines.",
  WORKER_REFUSED: "The PyTorch worker and this library do not go together: the token, the protocol or the version.",
  BUSY: "More requests are running and waiting than the policy was opened to take at a time; try again later.",
  DRAIN_TIMEOUT:
    "Weights could not be changed: there is no memory for a second version, and running replies did not end in time.",
  WEIGHTS_INCOMPLETE:
    "A load that had no memory for a second copy was broken off; whole weights must be loaded before anything else.",
  POLICY_CLOSED: "The policy was used after close().",
  CAPABILITY_MISSING: "The engine cannot do what the algorithm or an option needs; the message names it.",
  NOT_TRAINABLE: "The policy cannot be trained (a stub, or nothing is trainable).",
  ABORTED: "The work was stopped by an AbortSignal.",
  HOOK_FAILED: "A hook of the agent (beforeGeneration, afterGeneration) threw.",
  ENVIRONMENT_FAILED: "An environment threw or timed out, also on its retry.",
  USER_FAILED: "A simulated user threw, or said nothing.",
  CHECK_FAILED: "The check of a task returned neither yes or no nor a progress from 0 to 1.",
  REWARD_FAILED: "A reward function threw or timed out.",
  REWARD_NOT_FINITE: "A reward function returned something that is not a finite number.",
  JUDGE_FAILED: "A judge could not be reached, its budget is spent, or its answer could not be read.",
  FETCH_REFUSED:
    "An outgoing call was refused: its address is not one that may be called, it redirects elsewhere, or its answer is too large.",
  NOT_FINITE: "A loss, gradient or reward became NaN or infinite three times in a row.",
  CHECKPOINT_NOT_FOUND: "No run and no checkpoint at that path.",
  CHECKPOINT_INVALID: "A checkpoint, or a run's config.json, is damaged or incomplete.",
  CHECKPOINT_MISMATCH: "A checkpoint or run belongs to another model, learner or configuration.",
  RUN_BUSY: "Another process is writing this run, so it cannot be resumed, removed or written to.",
  CONFIG_NOT_FOUND: "No configuration file was found.",
  WRITE_FAILED: "A file could not be written (disk full, read-only folder, …); what was there before is intact.",
} as const;

export type ErrorCode = keyof typeof errorCodes;

export interface ErrorDetails {
  /** What the user can do about it. */
  hint?: string;
  cause?: unknown;
}

/** The base of every error this library throws. The message says what happened and where; `hint` says what to do. */
export class StatesetError extends Error {
  override readonly name = "StatesetError";
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly [marker] = true;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(details.hint ? `${message} ${details.hint}` : message, { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
  }

  /** True for errors of any copy of this library in the process. */
  static isInstance(value: unknown): value is StatesetError {
    return typeof value === "object" && value !== null && marker in value;
  }
}

/** The message of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? thrown.message : String(thrown);
  } catch {
    // What was thrown decides how it is printed, and that may fail.
    return `${typeof thrown} that cannot be printed`;
  }
}

/** Whether this error, or one that caused it, has the code. */
export function hasCode(error: unknown, code: ErrorCode): boolean {
  for (let one: unknown = error; one instanceof Error; one = one.cause) {
    if (StatesetError.isInstance(one) && one.code === code) return true;
  }
  return false;
}
