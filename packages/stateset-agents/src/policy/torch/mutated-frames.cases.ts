/** Frames as they should not be, for both readers. */
import { createRandom, type Random } from "../../random.ts";
import { encodeFrame, type FrameArray } from "./frame.ts";

export function wholeFrame(envelope: Record<string, unknown>, arrays?: Record<string, FrameArray>): Buffer {
  return Buffer.concat(encodeFrame(envelope, arrays));
}

/** A frame with this header, right or wrong. */
export function frameOf(header: unknown, data = Buffer.alloc(0)): Buffer {
  const text = Buffer.isBuffer(header)
    ? header
    : Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, " ")]);
  return Buffer.concat([u64(8 + padded.length + data.length), u64(padded.length), padded, data]);
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

export const example = wholeFrame(
  { id: 7, op: "forward", text: "ä\u2028😀", deep: [[{ a: null }], 1.5, true], "10": "ten" },
  {
    tokens: Int32Array.from({ length: 40 }, (_, i) => i),
    wanted: new Uint8Array(13).fill(1),
    logprobs: Float32Array.of(-3, -0.5, 0),
    long: BigInt64Array.of(-1n, 2n ** 60n),
    values: new Float64Array(0),
  },
);

const sources = [
  example,
  wholeFrame({ id: 1, ok: true, busy: null }),
  wholeFrame(
    { id: 2, logitBias: Object.fromEntries(Array.from({ length: 40 }, (_, i) => [i, 0.5])) },
    { tokens: new Int32Array(500) },
  ),
];

/** The same ones for the same seed. */
export function* mutatedFrames(count: number, seed: number): Generator<Buffer> {
  const random = createRandom(seed);
  for (let i = 0; i < count; i++) {
    let frame = sources[random.below(sources.length)]!;
    for (let left = 1 + random.below(4); left > 0 && frame.length > 0; left--) frame = mutate(frame, random);
    yield frame;
  }
}

const lengths = [0, 7, 8, 2 ** 16, 2 ** 20, 2 ** 31, 2n ** 53n + 1n, 2n ** 64n - 1n];
const texts = ["[".repeat(200), "9".repeat(50), "-", '"', "\\u0000", '{"a":', "NaN", "1e400", "0.0", "__proto__"];

function mutate(frame: Buffer, random: Random): Buffer {
  const at = random.below(frame.length);
  const splice = (removed: number, put: Uint8Array, from = at) =>
    Buffer.concat([frame.subarray(0, from), put, frame.subarray(from + removed)]);
  const bytes = () => Buffer.from(Array.from({ length: 1 + random.below(40) }, () => random.below(256)));
  switch (random.below(7)) {
    case 0:
      return splice(1, Uint8Array.of(frame[at]! ^ (1 << random.below(8))));
    case 1:
      return splice(1, Uint8Array.of(random.below(256)));
    case 2:
      return splice(1 + random.below(40), new Uint8Array(0));
    case 3:
      return splice(0, bytes());
    case 4:
      return splice(0, frame.subarray(at, at + 1 + random.below(80)));
    case 5:
      return splice(8, u64(lengths[random.below(lengths.length)]!), [0, 8, at][random.below(3)]!);
    default:
      return splice(1, Buffer.from(texts[random.below(texts.length)]!));
  }
}
