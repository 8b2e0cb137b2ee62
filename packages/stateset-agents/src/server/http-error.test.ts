import { describe, expect, it } from "vitest";
import { type ErrorCode, errorCodes, StatesetError } from "../error.ts";
import { HttpError, httpErrorOf } from "./http-error.ts";

describe("an error that a request is answered with", () => {
  it("has OpenAI's shape, and the type of its status unless another is said", () => {
    expect(new HttpError(429, "Slowly.", { code: "queue_full" }).toBody()).toEqual({
      error: { message: "Slowly.", type: "rate_limit_error", param: null, code: "queue_full" },
    });
    const types = [400, 401, 403, 404, 408, 413, 415, 429, 500, 503].map(
      (s) => new HttpError(s, "").toBody().error.type,
    );
    expect(types).toEqual([
      "invalid_request_error",
      "authentication_error",
      "permission_error",
      "not_found_error",
      "timeout_error",
      "invalid_request_error",
      "invalid_request_error",
      "rate_limit_error",
      "server_error",
      "server_error",
    ]);
    const own = new HttpError(400, "No.", { type: "own_error", param: "n" });
    expect(own.toBody().error).toMatchObject({ type: "own_error", param: "n" });
  });
});

describe("what it tells of what was sent", () => {
  it("is short, however long that was", () => {
    const { error } = new HttpError(400, `No "${"x".repeat(1e6)}".`, { param: "y".repeat(1e6) }).toBody();
    expect([error.message.length, error.param!.length]).toEqual([1001, 1001]);
  });

  it("is never a key", () => {
    const key = "sk-ss-0123456789abcdef-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const body = new HttpError(400, `Unknown field "${key}".`, { param: key }).toBody();
    expect(body.error).toMatchObject({ message: 'Unknown field "[key]".', param: "[key]" });
  });
});

describe("what was thrown, as such an error", () => {
  const of = (code: ErrorCode) => {
    const { status, ...error } = httpErrorOf(new StatesetError(code, "Secret /home/x."));
    return { status, code: error.details.code };
  };

  it("is the request's fault, a state of the engine, or nobody's business, for every code", () => {
    const statuses = Object.keys(errorCodes).map((code) => [code, of(code as ErrorCode).status] as const);
    const others = statuses.filter(([, status]) => status !== 500);
    expect(Object.fromEntries(others)).toEqual({
      INVALID_OPTION: 400,
      INVALID_MESSAGE: 400,
      TOKENIZER_INVALID: 400,
      CONTEXT_OVERFLOW: 400,
      CAPABILITY_MISSING: 400,
      BUSY: 429,
      ABORTED: 499,
      OUT_OF_MEMORY: 503,
      ENGINE_UNAVAILABLE: 503,
      ENGINE_FAILED: 503,
      DRAIN_TIMEOUT: 503,
      WEIGHTS_INCOMPLETE: 503,
      POLICY_CLOSED: 503,
      WORKER_LOST: 503,
      WORKER_REFUSED: 503,
    });
  });

  it("says when to come again where the engine is busy", () => {
    const { headers } = httpErrorOf(new StatesetError("BUSY", "Too many.")).details;
    expect(headers).toEqual({ "retry-after-ms": "1000", "retry-after": "1" });
  });

  it("is named as OpenAI names it, or by its code", () => {
    expect(of("CONTEXT_OVERFLOW").code).toBe("context_length_exceeded");
    expect(of("ENGINE_FAILED").code).toBe("engine_failed");
    expect(of("MODEL_NOT_FOUND").code).toBe("internal_error");
  });

  it("tells a client what it did wrong, and nothing of the inside", () => {
    for (const code of Object.keys(errorCodes) as ErrorCode[]) {
      const told = httpErrorOf(new StatesetError(code, "Secret /home/x.")).message.includes("Secret");
      expect(told, code).toBe(
        ["INVALID_OPTION", "INVALID_MESSAGE", "CONTEXT_OVERFLOW", "CAPABILITY_MISSING", "BUSY"].includes(code),
      );
    }
    for (const thrown of [new TypeError("secret"), "secret", undefined, null, { code: "INVALID_OPTION" }]) {
      const error = httpErrorOf(thrown);
      expect(error.toBody().error).toEqual({
        message: "internal error",
        type: "server_error",
        param: null,
        code: "internal_error",
      });
      expect([error.status, error.cause]).toEqual([500, thrown]);
    }
  });

  it("stays what it is where it is one already", () => {
    const error = new HttpError(404, "No such model.");
    expect(httpErrorOf(error)).toBe(error);
  });
});
