/** What a request is answered with when it fails, in the shape that OpenAI's clients read. */
export interface HttpErrorDetails {
  /** Default: by the status. */
  type?: string;
  code?: string | null;
  param?: string | null;
  headers?: Record<string, string>;
  cause?: unknown;
}

export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null };
}

const types: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  408: "timeout_error",
  429: "rate_limit_error",
};

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
    const type =
      this.details.type ?? types[this.status] ?? (this.status >= 500 ? "server_error" : "invalid_request_error");
    return {
      error: { message: this.message, type, param: this.details.param ?? null, code: this.details.code ?? null },
    };
  }
}
