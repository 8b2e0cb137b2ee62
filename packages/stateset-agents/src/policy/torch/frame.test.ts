import { afterEach, describe, expect, it, vi } from "vitest";
import { StatesetError } from "../../error.ts";
import { encodeFrame, type Frame, FrameReader, maxFirstFrameBytes } from "./frame.ts";
import { example, frameOf, mutatedFrames, u64, wholeFrame } from "./mutated-frames.cases.ts";

afterEach(() => vi.restoreAllMocks());

function read(data: Uint8Array, limit = maxFirstFrameBytes): Frame[] {
  return [...new FrameReader(limit).push(data)];
}

it("reads what was written, in whatever pieces it comes", () => {
  const data = Buffer.concat([example, wholeFrame({ id: 8 })]);
  for (const size of [1, 3, 8, 100, data.length]) {
    const reader = new FrameReader();
    const frames: Frame[] = [];
    for (let at = 0; at < data.length; at += size) frames.push(...reader.push(data.subarray(at, at + size)));
    expect(frames.map(({ envelope }) => envelope.id)).toEqual([7, 8]);
    expect(reader.between).toBe(true);
    const { envelope, arrays } = frames[0]!;
    expect(envelope).toMatchObject({ op: "forward", text: "ä\u2028😀", deep: [[{ a: null }], 1.5, true] });
    expect(arrays).toEqual({
      long: BigInt64Array.of(-1n, 2n ** 60n),
      values: new Float64Array(0),
      tokens: Int32Array.from({ length: 40 }, (_, i) => i),
      logprobs: Float32Array.of(-3, -0.5, 0),
      wanted: new Uint8Array(13).fill(1),
    });
    expect(new Set(Object.values(arrays).map(({ buffer }) => buffer)).size).toBe(1);
  }
});

it("says whether a frame was cut off", () => {
  const reader = new FrameReader();
  expect([...reader.push(example.subarray(0, 5))]).toEqual([]);
  expect(reader.between).toBe(false);
  expect([...reader.push(example.subarray(5, 50))]).toEqual([]);
  expect(reader.between).toBe(false);
});

it("hands out a frame before it stumbles over the next, and takes a new limit between", () => {
  const reader = new FrameReader(1000);
  const frames = reader.push(
    Buffer.concat([wholeFrame({ id: 1 }), wholeFrame({ id: 2 }, { x: new Uint8Array(2000) })]),
  );
  expect(frames.next().value).toMatchObject({ envelope: { id: 1 } });
  expect(() => frames.next()).toThrow("at most 1000 may be");
  const again = new FrameReader(1000);
  const more = again.push(Buffer.concat([wholeFrame({ id: 1 }), wholeFrame({ id: 2 }, { x: new Uint8Array(2000) })]));
  more.next();
  again.limit = 10_000;
  expect(more.next().value).toMatchObject({ envelope: { id: 2 } });
});

it("views arrays where they lie when it writes, and writes null for what is not finite", () => {
  const values = Float32Array.of(1, 2);
  const [, part] = encodeFrame({ id: 1, norm: Number.NaN }, { values });
  expect(part!.buffer).toBe(values.buffer);
  expect(read(wholeFrame({ id: 1, norm: Number.NaN }))[0]!.envelope).toEqual({ id: 1, norm: null });
});

it("refuses to write what could not be read", () => {
  const names = Array.from({ length: 65 }, (_, i) => String.fromCharCode(97 + Math.floor(i / 26), 97 + (i % 26)));
  const one = new Float32Array(1);
  expect(() => encodeFrame({}, { a1: one })).toThrow('Array "a1" cannot be sent');
  expect(() => encodeFrame({}, { a: new Uint16Array(1) as never })).toThrow("cannot be sent");
  expect(() => encodeFrame({}, Object.fromEntries(names.map((name) => [name, one])))).toThrow("65 arrays");
  expect(() => encodeFrame({}, { a: new Float32Array(300) }, 1000)).toThrow("at most 1000 may be");
  expect(() => encodeFrame({ text: "x".repeat(2 ** 20) })).toThrow("a header of");
});

describe("refuses a frame and says why", () => {
  const four = Buffer.alloc(4);
  const entry = (dtype: string, length: number, start: number, end: number) => ({
    dtype,
    shape: [length],
    data_offsets: [start, end],
  });
  const header = (arrays: Record<string, unknown>, envelope = "{}") => ({
    __metadata__: { frame: envelope },
    ...arrays,
  });
  const float = entry("F32", 1, 0, 4);
  const nested = (depth: number) => frameOf(header({}, `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`));
  const many = Object.fromEntries(
    Array.from({ length: 65 }, (_, i) => [
      String.fromCharCode(97 + Math.floor(i / 26), 97 + (i % 26)),
      entry("U8", 0, 0, 0),
    ]),
  );
  const cases: [string, Buffer][] = [
    ["at most 65536 may be", u64(2n ** 64n - 1n)],
    ["a frame of 7 bytes", Buffer.concat([u64(7), Buffer.alloc(7)])],
    ["a header of", Buffer.concat([u64(16), u64(2n ** 63n), Buffer.alloc(8)])],
    ["no multiple of 8", Buffer.concat([u64(11), u64(3), Buffer.from("{} ")])],
    ["not UTF-8", frameOf(Buffer.from([0xff, 0xfe, 0x7b, 0x7d]))],
    ["the header is not JSON", frameOf("{")],
    ["the header is not JSON", frameOf("[".repeat(9000))],
    ["the header is not a JSON object", frameOf([])],
    ["twice", frameOf('{"__metadata__":{"frame":"{}"},"__metadata__":{"frame":"{}"}}')],
    ["not an envelope", frameOf({})],
    ["not an envelope", frameOf({ __metadata__: { frame: "{}", more: "" } })],
    ["not an envelope", frameOf({ __metadata__: { frame: 1 } })],
    ["the envelope is not a JSON object", frameOf(header({}, "[]"))],
    ["the envelope is not JSON", frameOf(header({}, '{"a":NaN}'))],
    ["not finite", frameOf(header({}, '{"a":1e999}'))],
    ["twice", frameOf(header({}, '{"a":1,"a":2}'))],
    ["deeper than 16", nested(16)],
    ["the last 4 bytes", frameOf(header({}), four)],
    ["an array named", frameOf(header({ a1: float }), four)],
    ["an array named", frameOf(`{"__metadata__":{"frame":"{}"},"__proto__":${JSON.stringify(float)}}`, four)],
    ["its entry is not", frameOf(header({ a: [1] }), four)],
    ["its entry is not", frameOf(header({ a: { ...float, x: 1 } }), four)],
    ["its dtype", frameOf(header({ a: entry("F16", 2, 0, 4) }), four)],
    ["its dtype", frameOf(header({ a: { ...float, dtype: "constructor" } }), four)],
    ["not one size", frameOf(header({ a: { ...float, shape: [1, 1] } }), four)],
    ["not one size", frameOf(header({ a: { ...float, shape: [true] } }), four)],
    ["not a pair", frameOf(header({ a: { ...float, data_offsets: [0] } }), four)],
    ["not a pair", frameOf(header({ a: { ...float, data_offsets: [-4, 0] } }), four)],
    ["do not hold it", frameOf(header({ a: entry("F32", 2, 0, 4) }), four)],
    ["do not hold it", frameOf(header({ a: entry("F32", 2, 0, 8) }), four)],
    ["do not follow", frameOf(header({ a: entry("U8", 4, 0, 4), b: entry("U8", 4, 0, 4) }), four)],
    ["is no place", frameOf(header({ a: entry("U8", 1, 0, 1), b: entry("F32", 1, 1, 5) }), Buffer.alloc(5))],
    ["65 arrays", frameOf(header(many))],
  ];
  it.each(cases)("%s", (why, data) => {
    expect(() => read(data)).toThrow(why);
  });

  it("but not one that is nested just so deep", () => {
    expect(read(nested(15))).toHaveLength(1);
  });
});

it("takes no memory because a length was announced", () => {
  const taken = vi.spyOn(Buffer, "allocUnsafeSlow");
  expect(read(Buffer.concat([u64(2 ** 30), Buffer.alloc(2 ** 16)]), 2 ** 30)).toEqual([]);
  expect(taken.mock.calls).toEqual([[2 ** 20]]);
});

it("never holds more than was announced while a large frame arrives", () => {
  const taken = vi.spyOn(Buffer, "allocUnsafeSlow");
  const frame = wholeFrame({ id: 1 }, { x: new Uint8Array(5 * 2 ** 20).fill(3) });
  const reader = new FrameReader();
  const frames: Frame[] = [];
  for (let at = 0; at < frame.length; at += 2 ** 16) frames.push(...reader.push(frame.subarray(at, at + 2 ** 16)));
  expect(Buffer.alloc(5 * 2 ** 20, 3).equals(frames[0]!.arrays.x as Uint8Array)).toBe(true);
  expect(taken.mock.calls.flat()).toEqual([2 ** 20, 2 ** 21, 2 ** 22, frame.length - 8]);
});

it("survives 10,000 mutated frames within its limit", () => {
  const taken = vi.spyOn(Buffer, "allocUnsafeSlow");
  const before = process.memoryUsage().heapUsed;
  let [frames, refused, largestHeap] = [0, 0, 0];
  for (const data of mutatedFrames(10_000, 17)) {
    try {
      frames += read(data).length;
    } catch (error) {
      if (!StatesetError.isInstance(error)) throw error;
      refused++;
      expect(error.message.length).toBeLessThan(400);
    }
    largestHeap = Math.max(largestHeap, process.memoryUsage().heapUsed);
  }
  expect(Math.max(...taken.mock.calls.flat())).toBeLessThanOrEqual(maxFirstFrameBytes);
  expect(largestHeap - before).toBeLessThan(2 ** 28);
  // Some mutations hit data alone: had none passed, they would be too coarse to say anything.
  expect(frames).toBeGreaterThan(100);
  expect(refused).toBeGreaterThan(1000);
});
