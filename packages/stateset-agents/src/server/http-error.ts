/** What a request is answered with when it fails, in OpenAI's shape. */
import { type ErrorCode, errorCodes, StatesetError } from "../error.ts";
import { withoutSecrets } from "./observe/redact.ts";

export interface HttpErrorDetails {
  /** By default that of the status. */
  type?: string;
  code?: string | null;
  /** The field of the request that it is about. */
  param?: string | null;
  headers?: Record<string, string>;
  cause?: unknown;
}

export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null };
}

export class HttpError extends Error {
  override readonly name = "HttpError";

  constructor(
    readonly status: number,
    message: string,
    readonly details: HttpErrorDetails = {},
  ) {
    super(message, { cause: details.cause });
  }

  toBody(): ErrorBody {
    const { type = typeOf(this.status), param = null, code = null } = this.details;
    return { error: { message: told(this.message), type, param: param === null ? null : told(param), code } };
  }
}

/** Names that a client gave are told back to it, but no more of them than says which, and no key that it put in their place. */
function told(text: string): string {
  const clean = withoutSecrets(text);
  return clean.length <= longestText ? clean : `${clean.slice(0, longestText)}…`;
}

const longestText = 1000;

const types: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  408: "timeout_error",
  429: "rate_limit_error",
};

function typeOf(status: number): string {
  return types[status] ?? (status >= 500 ? "server_error" : "invalid_request_error");
}

/**
 * What a code is to whoever sent the request.
 * - `asked`: the request's own doing. It is told what was wrong with it.
 * - `busy`: it may come again.
 * - `gone`: the client left; nobody reads the answer.
 * - `down`: the engine cannot serve now. The message is that of the code's table: what the engine said may name files and addresses.
 * - `inside`: the server's own files, settings and parts, or somebody's code in it. A client learns nothing of them.
 */
type Meaning = "asked" | "busy" | "gone" | "down" | "inside";

const meanings: Readonly<Record<ErrorCode, Meaning>> = {
  INVALID_OPTION: "asked",
  INVALID_MESSAGE: "asked",
  CONTEXT_OVERFLOW: "asked",
  // A request may ask for what its model's engine cannot do.
  CAPABILITY_MISSING: "asked",
  // It was loaded: what fails now is its template, on what this request says.
  TOKENIZER_INVALID: "asked",
  BUSY: "busy",
  ABORTED: "gone",
  ENGINE_FAILED: "down",
  ENGINE_UNAVAILABLE: "down",
  WORKER_LOST: "down",
  WORKER_REFUSED: "down",
  OUT_OF_MEMORY: "down",
  POLICY_CLOSED: "down",
  DRAIN_TIMEOUT: "down",
  WEIGHTS_INCOMPLETE: "down",
  TOOL_MISSING: "inside",
  MCP_FAILED: "inside",
  HOOK_FAILED: "inside",
  MODEL_NOT_FOUND: "inside",
  MODEL_UNSUPPORTED: "inside",
  MODEL_INVALID: "inside",
  HUB_UNAVAILABLE: "inside",
  INVALID_SCENARIO: "inside",
  INVALID_DATA: "inside",
  NOT_TRAINABLE: "inside",
  ENVIRONMENT_FAILED: "inside",
  USER_FAILED: "inside",
  REWARD_FAILED: "inside",
  REWARD_NOT_FINITE: "inside",
  JUDGE_FAILED: "inside",
  NOT_FINITE: "inside",
  CHECKPOINT_NOT_FOUND: "inside",
  CHECKPOINT_INVALID: "inside",
  CHECKPOINT_MISMATCH: "inside",
  RUN_BUSY: "inside",
  CONFIG_NOT_FOUND: "inside",
  CHECK_FAILED: "inside",
  FETCH_REFUSED: "inside",
  WRITE_FAILED: "inside",
};

/** OpenAI's names for what has one there. */
const names: Partial<Record<ErrorCode, string>> = { CONTEXT_OVERFLOW: "context_length_exceeded" };

/** Of anything that was thrown while a request was served. What was thrown is its cause, for the log. */
export function httpErrorOf(thrown: unknown): HttpError {
  if (thrown instanceof HttpError) return thrown;
  if (StatesetError.isInstance(thrown)) {
    const param = thrown.code === "INVALID_MESSAGE" ? "messages" : null;
    const details = { code: names[thrown.code] ?? thrown.code.toLowerCase(), param, cause: thrown };
    switch (meanings[thrown.code]) {
      case "asked":
        return new HttpError(400, askedMessage(thrown), details);
      case "busy":
        return new HttpError(429, thrown.message, {
          ...details,
          headers: { "retry-after-ms": "1000", "retry-after": "1" },
        });
      case "gone":
        return new HttpError(499, "The client closed the request.", details);
      case "down":
        return new HttpError(503, errorCodes[thrown.code], details);
    }
  }
  return new HttpError(500, "internal error", { code: "internal_error", cause: thrown });
}

/** A template that fails says where its file is, and in words of its own. */
function askedMessage({ code, message }: StatesetError): string {
  return code === "TOKENIZER_INVALID" ? "The model's chat template cannot print these messages and tools." : message;
}
