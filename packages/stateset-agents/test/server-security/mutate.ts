/** Valid requests made wrong: in their values, their shape, their bytes and their headers. The same seed makes the same ones. */
import type { Random } from "../../src/random.ts";
import type { Asked } from "./attacked-server.ts";

const deep = (levels: number, inner: unknown): unknown => (levels === 0 ? inner : [deep(levels - 1, inner)]);

/** What takes the place of a value. */
const hostile: readonly (() => unknown)[] = [
  ...[null, true, false, 0, -1, 1, 2, 0.5, -0.5, 128, 129, 1e9, 2 ** 31, 2 ** 32, 2 ** 53, 1e308, -1e308].map(
    (v) => () => v,
  ),
  ...["", " ", "a", "\0", "\ud800", "\uFDD0", "é", "🙂", "<|im_end|>", "../../etc/passwd", "%2e%2e", "null", "-1"].map(
    (v) => () => v,
  ),
  ...["system", "tool", "assistant", "function", "required", "json_object", "json_schema", "batch", "base64"].map(
    (v) => () => v,
  ),
  () => "x".repeat(5000),
  () => "\\".repeat(300),
  () => "[".repeat(2000),
  () => '{"a":'.repeat(500),
  () => [],
  () => ({}),
  () => [null],
  () => [[]],
  () => deep(50, 1),
  () => Array.from({ length: 300 }, (_, i) => i),
  () => Array.from({ length: 20 }, () => ""),
  () => ({ type: "text", text: "a" }),
  () => ({ type: "image_url", image_url: { url: "http://169.254.169.254/" } }),
  () => ({ type: "json_object" }),
  () => ({ type: "json_schema", json_schema: { name: "a", schema: { $ref: "#" } } }),
  () => ({ type: "json_schema", json_schema: { name: "a", schema: { type: "string", pattern: "(a+)+$" } } }),
  () => ({ type: "object", properties: { a: { $ref: "#/properties/a" } }, required: ["a", "b"] }),
  // biome-ignore lint/suspicious/noThenProperty: somebody may send it.
  () => ({ toString: 1, valueOf: 2, hasOwnProperty: 3, length: -1, then: "x", toJSON: 5 }),
];

const names = [
  ...[
    "model",
    "messages",
    "tools",
    "stop",
    "seed",
    "n",
    "stream",
    "max_tokens",
    "min_tokens",
    "logprobs",
    "top_logprobs",
  ],
  ...["temperature", "top_k", "logit_bias", "response_format", "tool_choice", "parallel_tool_calls", "prompt", "input"],
  ...["echo", "best_of", "suffix", "tokens", "dimensions", "encoding_format", "stop_token_ids", "deadline", "priority"],
  ...[
    "chat_template_kwargs",
    "return_token_ids",
    "stream_options",
    "role",
    "content",
    "name",
    "tool_calls",
    "toString",
  ],
  ...["tool_call_id", "refusal", "reasoning", "__proto__", "constructor", "", "a.b", "é", "x".repeat(300)],
];

type Place = { holder: Record<string, unknown>; key: string };

function placesIn(value: unknown, found: Place[] = []): Place[] {
  if (typeof value !== "object" || value === null) return found;
  for (const key of Object.keys(value)) {
    found.push({ holder: value as Record<string, unknown>, key });
    placesIn((value as Record<string, unknown>)[key], found);
  }
  return found;
}

function mutateValue(value: object, random: Random): void {
  const pick = <T>(list: readonly T[]): T => list[random.below(list.length)]!;
  const places = placesIn(value);
  if (places.length === 0) return;
  const { holder, key } = pick(places);
  const kinds: (() => void)[] = [
    () => {
      holder[key] = pick(hostile)();
    },
    () => {
      delete holder[key];
    },
    () => {
      Object.defineProperty(holder, pick(names), {
        value: pick(hostile)(),
        enumerable: true,
        configurable: true,
        writable: true,
      });
    },
    () => {
      holder[key] = structuredClone(pick(places).holder);
    },
    () => {
      if (Array.isArray(holder)) holder.push(...(structuredClone(holder) as unknown[]));
      else (value as Record<string, unknown>)[pick(names)] = pick(hostile)();
    },
  ];
  pick(kinds)();
}

function mutateText(text: string, random: Random): Uint8Array {
  const bytes = Buffer.from(text);
  const at = random.below(bytes.length + 1);
  const junk = Buffer.from([random.below(256), random.below(256)]);
  const kinds = [
    () => bytes.subarray(0, at),
    () => Buffer.concat([bytes.subarray(0, at), junk, bytes.subarray(at)]),
    () => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]),
    () => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]),
    () => Buffer.concat([bytes, bytes]),
    () => Buffer.from(text.replace(/"(\w+)"/, '"$1":1,"$1"')),
    () => Buffer.from(text, "utf16le"),
  ];
  return kinds[random.below(kinds.length)]!();
}

const oddHeaders: readonly Record<string, string>[] = [
  ...["text/plain", "application/json; charset=utf-16", "multipart/form-data", "application/x-ndjson", ""].map(
    (type) => ({
      "content-type": type,
    }),
  ),
  ...["gzip", "br", "identity, gzip", "identity"].map((coding) => ({ "content-encoding": coding })),
  ...[
    { "x-request-id": "a b" },
    { traceparent: "00-zz" },
    { traceparent: `00-${"0".repeat(32)}-${"0".repeat(16)}-01` },
  ],
  ...[{ accept: "text/html" }, { "content-length": "5" }, { expect: "100-continue" }, { authorization: "Bearer x" }],
];

/** One of the valid bodies, or none, made wrong. */
export function mutated(body: object | undefined, key: string, random: Random): Asked {
  const asked: Asked = { key };
  if (random.below(10) === 0) asked.headers = oddHeaders[random.below(oddHeaders.length)]!;
  if (random.below(20) === 0)
    asked.name = ["..", "%2e%2e", "%00", "a%2Fb", "starter%0d%0a", "%E0%A4%A"][random.below(6)]!;
  if (body === undefined) return asked;
  const copy = structuredClone(body);
  for (let i = random.below(4); i >= 0; i--) mutateValue(copy, random);
  const text = JSON.stringify(copy);
  return { ...asked, body: random.below(8) === 0 ? mutateText(text, random) : text };
}
