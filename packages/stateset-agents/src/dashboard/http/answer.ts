/** Answers of the dashboard, as small as the one who asks can take them. */
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import type { Exchange } from "../../server/exchange.ts";

export type Encoding = "br" | "gzip";

/** Below it nothing is gained. */
const fewBytes = 1024;

const [asBrotli, asGzip] = [promisify(brotliCompress), promisify(gzip)];

/** In a thread of Node's own pool. `quality` is brotli's, up to 11. */
export async function compressed(bytes: Uint8Array, encoding: Encoding, quality = 5): Promise<Uint8Array<ArrayBuffer>> {
  if (encoding === "gzip") return plain(await asGzip(bytes, { level: 6 }));
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  return plain(await asBrotli(bytes, { params }));
}

function plain({ buffer, byteOffset, byteLength }: Buffer): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

/** The best that the client takes; undefined where it names none that we have. */
export function encodingFor(header: string | undefined): Encoding | undefined {
  const taken = (header ?? "").split(",").flatMap((part) => {
    const [name = "", ...params] = part.toLowerCase().split(";");
    return params.some((param) => /^\s*q=0(?:\.0*)?\s*$/.test(param)) ? [] : [name.trim()];
  });
  return (["br", "gzip"] as const).find((encoding) => taken.includes(encoding));
}

export async function answerJson(exchange: Exchange, value: object): Promise<Response> {
  return answerBytes(exchange, new TextEncoder().encode(JSON.stringify(value)), "application/json");
}

export async function answerBytes(
  exchange: Exchange,
  bytes: Uint8Array<ArrayBuffer>,
  type: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  const all = { "content-type": type, vary: "accept-encoding", ...headers };
  const encoding = bytes.length < fewBytes ? undefined : encodingFor(exchange.header("accept-encoding"));
  if (encoding === undefined) return new Response(bytes, { headers: all });
  const small = await compressed(bytes, encoding);
  if (small.length >= bytes.length) return new Response(bytes, { headers: all });
  return new Response(small, { headers: { ...all, "content-encoding": encoding } });
}
