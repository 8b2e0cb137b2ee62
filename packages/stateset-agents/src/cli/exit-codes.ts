import { type ErrorCode, StatesetError } from "../error.ts";

/** Every status the CLI ends with. docs/reference/cli.md prints this table. */
export const exitCodes = {
  0: "Done.",
  1: "Something unexpected failed. STATESET_DEBUG=1 shows the stack.",
  2: "The command line is wrong: an unknown command or flag, or a value that is not allowed.",
  3: "The configuration or a data file is missing or malformed.",
  4: "The model cannot be used: not found, damaged, not supported, or the hub is out of reach.",
  5: "A run or checkpoint is missing, damaged, of another model, or in use by another process.",
  6: "The engine is missing or failed, or the work does not fit in memory.",
  7: "The run failed: rewards, environments or losses broke down, or nothing can be trained.",
  8: "A file could not be written.",
  9: "doctor found a problem.",
  129: "The terminal or the reader of the output went away; a training run has saved what it did.",
  130: "Interrupted by Ctrl-C; a training run has saved what it did.",
  143: "Asked to end (SIGTERM); a training run has saved what it did.",
} as const;

export type ExitCode = keyof typeof exitCodes;
export type InterruptCode = 129 | 130 | 143;

const byErrorCode: Record<ErrorCode, ExitCode> = {
  INVALID_OPTION: 2,
  TOOL_MISSING: 2,
  INVALID_SCENARIO: 3,
  INVALID_DATA: 3,
  INVALID_MESSAGE: 3,
  CONFIG_NOT_FOUND: 3,
  MODEL_NOT_FOUND: 4,
  MODEL_UNSUPPORTED: 4,
  MODEL_INVALID: 4,
  TOKENIZER_INVALID: 4,
  HUB_UNAVAILABLE: 4,
  CHECKPOINT_NOT_FOUND: 5,
  CHECKPOINT_INVALID: 5,
  CHECKPOINT_MISMATCH: 5,
  RUN_BUSY: 5,
  ENGINE_UNAVAILABLE: 6,
  ENGINE_FAILED: 6,
  WORKER_LOST: 6,
  WORKER_REFUSED: 6,
  OUT_OF_MEMORY: 6,
  CONTEXT_OVERFLOW: 6,
  BUSY: 6,
  DRAIN_TIMEOUT: 6,
  WEIGHTS_INCOMPLETE: 6,
  POLICY_CLOSED: 1,
  CAPABILITY_MISSING: 2,
  NOT_TRAINABLE: 7,
  HOOK_FAILED: 7,
  ENVIRONMENT_FAILED: 7,
  USER_FAILED: 7,
  CHECK_FAILED: 7,
  REWARD_FAILED: 7,
  REWARD_NOT_FINITE: 7,
  MCP_FAILED: 7,
  JUDGE_FAILED: 7,
  FETCH_REFUSED: 7,
  NOT_FINITE: 7,
  WRITE_FAILED: 8,
  ABORTED: 130,
};

export function exitCodeOf(error: unknown): ExitCode {
  return StatesetError.isInstance(error) ? (byErrorCode[error.code] ?? 1) : 1;
}
