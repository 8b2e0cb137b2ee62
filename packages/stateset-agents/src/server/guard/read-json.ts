/** The body of a request as JSON, within limits of size, time and shape. What is refused is never repeated in the answer. */
import { onAbort } from "../../abort.ts";
import { HttpError } from "../http-error.ts";
import { type JsonLimits, lineAndColumn, scanJson } from "./scan-json.ts";

export interface BodyLimits extends Partial<JsonLimits> {
  maxBytes: number;
  /** What the body may be sent as, beside application/json. */
  types?: readonly string[] | undefined;
  /** For the whole body to arrive. Default 30,000. */
  timeoutMs?: number;
}

export interface ReadBody {
  value: unknown;
  bytes: number;
}

/** Throws 415, 413, 408, 400, or 499 when the client left. */
export async function readJson(
  request: Request,
  { maxBytes, types = [], timeoutMs = 30_000, maxDepth = 64, maxKeys = 10_000 }: BodyLimits,
): Promise<ReadBody> {
  checkType(request.headers, types);
  const bytes = await readBytes(request, maxBytes, timeoutMs);
  const text = decoded(bytes);
  if (text.trim() === "") throw new HttpError(400, "The body is empty; JSON was expected.", { code: "invalid_json" });
  const fault = scanJson(text, { maxDepth, maxKeys });
  if (fault) {
    const { line, column } = lineAndColumn(text, fault.at);
    const where = `line ${line}, column ${column} (position ${fault.at})`;
    throw new HttpError(400, `The body ${fault.problem}, at ${where}.`, { code: "invalid_json" });
  }
  return { value: JSON.parse(text) as unknown, bytes: bytes.length };
}

function checkType(headers: Headers, others: readonly string[]): void {
  const type = (headers.get("content-type") ?? "").trim();
  if (!others.includes(type.toLowerCase()) && !/^application\/json(?:\s*;\s*charset="?utf-?8"?)?\s*;?$/i.test(type)) {
    throw new HttpError(415, "The body must be sent as `content-type: application/json`.", {
      code: "unsupported_media_type",
    });
  }
  // What a few bytes unpack to is not known beforehand.
  if (!/^(?:identity)?$/i.test(headers.get("content-encoding") ?? "")) {
    throw new HttpError(415, "The body must not be compressed.", { code: "unsupported_media_type" });
  }
}

async function readBytes(request: Request, maxBytes: number, timeoutMs: number): Promise<Uint8Array> {
  const tooLarge = () => new HttpError(413, `The body has more than ${maxBytes} bytes.`, { code: "body_too_large" });
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  if (!request.body) return new Uint8Array();
  const reader = (request.body as ReadableStream<Uint8Array>).getReader();
  let timer: NodeJS.Timeout | undefined;
  let letGo = () => {};
  const ended = new Promise<never>((_, reject) => {
    const late = new HttpError(408, `The body did not arrive within ${timeoutMs} ms.`, { code: "body_timeout" });
    timer = setTimeout(() => reject(late), timeoutMs);
    letGo = onAbort(request.signal, () => reject(clientLeft(request.signal.reason)));
  });
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read(), ended]);
      if (done) return Buffer.concat(chunks, size);
      size += value.length;
      if (size > maxBytes) throw tooLarge();
      chunks.push(value);
    }
  } catch (error) {
    // Nobody waits for what a client that is slow, or gone, still sends.
    void reader.cancel().catch(() => {});
    throw error instanceof HttpError ? error : clientLeft(error);
  } finally {
    clearTimeout(timer);
    letGo();
    ended.catch(() => {});
  }
}

/** Nobody reads the answer; the log does. */
function clientLeft(cause: unknown): HttpError {
  return new HttpError(499, "The client left before its request was whole.", { code: "client_closed", cause });
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new HttpError(400, "The body is not UTF-8.", { code: "invalid_json" });
  }
}
