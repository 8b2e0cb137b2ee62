import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/tiny-model.ts";
import { StatesetError } from "../../error.ts";
import { createRandom } from "../../random.ts";
import { NeedsMore } from "./gguf-cursor.ts";
import { parseGgufHeader, readGgufHeader } from "./gguf-header.ts";
import { MetadataReader } from "./gguf-metadata.ts";
import { type GgufEntry, writeGguf } from "./write-gguf.ts";

let dir: string;
beforeAll(async () => {
  dir = await temporaryFolder();
});

const u32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number | bigint) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const text = (value: string | Buffer) => Buffer.concat([u64(Buffer.from(value).length), Buffer.from(value)]);
const key = (name: string, type: number, ...value: Buffer[]) => Buffer.concat([text(name), u32(type), ...value]);
const tensor = (name: string, sizes: (number | bigint)[], type: number, offset: number | bigint) =>
  Buffer.concat([text(name), u32(sizes.length), ...sizes.map(u64), u32(type), u64(offset)]);

interface Parts {
  keys?: Buffer[];
  tensors?: Buffer[];
  data?: number;
  version?: number;
  counts?: [number | bigint, number | bigint];
}

/** A file from its parts, however wrong they are. */
function craft({ keys = [], tensors = [], data = 0, version = 3, counts }: Parts): Buffer {
  const [tensorCount, keyCount] = counts ?? [tensors.length, keys.length];
  const header = Buffer.concat([
    Buffer.from("GGUF"),
    u32(version),
    u64(tensorCount),
    u64(keyCount),
    ...keys,
    ...tensors,
  ]);
  return Buffer.concat([header, Buffer.alloc((32 - (header.length % 32)) % 32), Buffer.alloc(data)]);
}

const parse = (bytes: Buffer) => parseGgufHeader(bytes, bytes.length, "crafted.gguf");

const metadata = new Map<string, GgufEntry>([
  ["general.architecture", "llama"],
  ["a.count", 7],
  ["a.theta", { f32: 0.5 }],
  ["a.flag", true],
  ["a.texts", ["Ġx", "", "é"]],
  ["a.ints", Int32Array.of(-1, 2)],
  ["a.floats", Float32Array.of(0.25)],
]);

describe("the header of a GGUF file", () => {
  it("holds what was written", async () => {
    const file = join(dir, "round.gguf");
    await writeGguf(file, metadata, [
      { name: "w", shape: [3, 64], type: "Q8_0", data: new Float32Array(192).fill(1) },
      { name: "b", shape: [5], type: "F32", data: async () => new Float32Array(5) },
      { name: "h", shape: [2, 3], type: "F16", data: new Float32Array(6) },
    ]);
    const header = await readGgufHeader(file);
    expect([...header.metadata]).toEqual([
      ["general.architecture", "llama"],
      ["a.count", 7],
      ["a.theta", 0.5],
      ["a.flag", true],
      ["a.texts", ["Ġx", "", "é"]],
      ["a.ints", [-1, 2]],
      ["a.floats", [0.25]],
    ]);
    const { start } = header.tensors.get("w")!;
    expect([...header.tensors]).toEqual([
      ["w", { type: "Q8_0", shape: [3, 64], bytes: 204, start }],
      ["b", { type: "F32", shape: [5], bytes: 20, start: start + 224 }],
      ["h", { type: "F16", shape: [2, 3], bytes: 12, start: start + 256 }],
    ]);
    expect(start % 32).toBe(0);
  });

  it("is read on where it is longer than a first look", async () => {
    const file = join(dir, "long.gguf");
    const tokens = Array.from({ length: 60_000 }, (_, i) => `a token with a long name, number ${i}`);
    await writeGguf(file, new Map([["tokens", tokens]]), [
      { name: "w", shape: [1], type: "F32", data: Float32Array.of(1) },
    ]);
    expect((await readGgufHeader(file)).metadata.get("tokens")).toEqual(tokens);
  });

  it("knows every type of value", () => {
    const i64 = Buffer.alloc(8);
    i64.writeBigInt64LE(-5n);
    const f64 = Buffer.alloc(8);
    f64.writeDoubleLE(0.1);
    const { metadata } = parse(
      craft({
        version: 2,
        keys: [
          key("u8", 0, Buffer.of(255)),
          key("i8", 1, Buffer.of(255)),
          key("u16", 2, Buffer.of(255, 255)),
          key("i16", 3, Buffer.of(255, 255)),
          key("i32", 5, u32(2 ** 32 - 1)),
          key("u64", 10, u64(2n ** 64n - 1n)),
          key("i64", 11, i64),
          key("f64", 12, f64),
          key("list", 9, u32(0), u64(2), Buffer.of(1, 2)),
        ],
      }),
    );
    expect([...metadata.values()]).toEqual([255, -1, 65535, -1, -1, 2n ** 64n - 1n, -5, 0.1, [1, 2]]);
  });

  it("gives values by their kind, and names file and key where they are of another", () => {
    const read = new MetadataReader(
      new Map<string, never>(Object.entries({ a: "x", b: 1.5, c: [1, 2] }) as never),
      "x.gguf",
    );
    expect([read.text("a"), read.number("b"), read.counts("c"), read.text("none")]).toEqual([
      "x",
      1.5,
      [1, 2],
      undefined,
    ]);
    expect(() => read.count("b")).toThrow(
      /x\.gguf: "b" is 1\.5; it must be a whole number from 0 to 2\^53\..*download/,
    );
    expect(() => read.texts("c")).toThrow(/"c" is a list of 2; it must be a list of texts/);
    expect(() => read.required("none", read.flag("none"))).toThrow(/x\.gguf has no "none".*no language model/);
    const key = "tokenizer.ggml.model";
    expect(() => read.required(key, read.text(key))).toThrow(/x\.gguf has no "tokenizer.*tokenizer\.json.*beside it/);
  });

  it.each<[string, Buffer, RegExp]>([
    ["an empty file", Buffer.alloc(0), /0 bytes long and does not begin/],
    ["another format", Buffer.from("PK\x03\x04 and more"), /does not begin with "GGUF"/],
    ["a cut number", Buffer.from("GGUF\x03\0"), /ends at byte 6, in the middle of its version/],
    ["absurd tensor counts", craft({ counts: [2n ** 64n - 1n, 0] }), /number of tensors is 18446744073709551615/],
    ["absurd key counts", craft({ counts: [0, 2n ** 40n] }), /number of metadata keys is 1099511627776/],
    [
      "a text past the end",
      craft({ counts: [0, 1], keys: [u64(2n ** 63n), Buffer.alloc(16)] }),
      /length of metadata key 0/,
    ],
    ["a value that is not there", craft({ keys: [key("a", 8, u64(1000))] }), /length of the value of "a" is 1000/],
    ["a list past the end", craft({ keys: [key("a", 9, u32(0), u64(2n ** 50n))] }), /length of the value of "a"/],
    ["a list of lists", craft({ keys: [key("a", 9, u32(9), u64(1), Buffer.alloc(12))] }), /list of lists/],
    ["a list of nothing known", craft({ keys: [key("a", 9, u32(77), u64(1))] }), /list of unknown type 77/],
    ["a value of unknown type", craft({ keys: [key("a", 13)] }), /unknown type 13/],
    ["a flag of 2", craft({ keys: [key("a", 7, Buffer.of(2))] }), /"a" is 2/],
    ["a text that is not UTF-8", craft({ keys: [key("a", 8, text(Buffer.of(0xff)))] }), /"a" is not UTF-8/],
    ["a key twice", craft({ keys: [key("a", 4, u32(1)), key("a", 4, u32(1))] }), /names "a" twice/],
    ["alignment 0", craft({ keys: [key("general.alignment", 4, u32(0))] }), /alignment is 0/],
    ["alignment 24", craft({ keys: [key("general.alignment", 4, u32(24))] }), /no power of 2/],
    ["alignment of text", craft({ keys: [key("general.alignment", 8, text("32"))] }), /whole number/],
    [
      "a tensor twice",
      craft({ tensors: [tensor("a", [1], 0, 0), tensor("a", [1], 0, 32)], data: 64 }),
      /"a" is there twice/,
    ],
    ["five dimensions", craft({ tensors: [tensor("a", [1, 1, 1, 1, 1], 0, 0)], data: 4 }), /5 dimensions/],
    ["half a block", craft({ tensors: [tensor("a", [48], 8, 0)], data: 64 }), /rows of 48 are not whole Q8_0 blocks/],
    ["sizes past 2^53", craft({ tensors: [tensor("a", [2 ** 30, 2 ** 30], 0, 0)], data: 4 }), /more than any file/],
    ["a size past 2^53", craft({ tensors: [tensor("a", [2n ** 60n], 0, 0)], data: 4 }), /size of tensor "a"/],
    [
      "a product that wraps",
      craft({ tensors: [tensor("a", [2 ** 32, 2 ** 32], 0, 0)], data: 4 }),
      /more than any file/,
    ],
    ["data past the end", craft({ tensors: [tensor("a", [4], 0, 0)], data: 8 }), /"a" ends at byte \d+.*truncated/],
    ["an offset past the end", craft({ tensors: [tensor("a", [1], 0, 2 ** 40)], data: 8 }), /truncated/],
    ["an offset past 2^53", craft({ tensors: [tensor("a", [1], 0, 2n ** 63n)], data: 8 }), /offset of tensor "a"/],
    ["an offset off the grid", craft({ tensors: [tensor("a", [1], 0, 4)], data: 64 }), /no multiple of the alignment/],
    [
      "overlap",
      craft({ tensors: [tensor("a", [16], 0, 0), tensor("b", [1], 0, 32)], data: 64 }),
      /"a" and "b" overlap/,
    ],
  ])("refuses %s", (_, bytes, message) => {
    expect(() => parse(bytes)).toThrow(expect.objectContaining({ code: "MODEL_INVALID" }));
    expect(() => parse(bytes)).toThrow(message);
    expect(() => parse(bytes)).toThrow(/crafted\.gguf/);
  });

  it("refuses other versions and byte orders by name", () => {
    for (const [version, message] of [
      [1, /GGUF version 1/],
      [4, /version 4/],
      [3 * 2 ** 24, /big-endian/],
    ] as const) {
      expect(() => parse(craft({ version }))).toThrow(expect.objectContaining({ code: "MODEL_UNSUPPORTED" }));
      expect(() => parse(craft({ version }))).toThrow(message);
    }
  });

  it("says of types that it does not know which are read, and of those of older files what they were", () => {
    for (const [type, message] of [
      [99, /"a": its type 99 is not known here.*Q4_K_M or Q8_0/],
      [31, /"a": its type Q4_0_4_4 is not known here/],
      [37, /"a": its type IQ4_NL_4_8/],
    ] as const) {
      const file = craft({ tensors: [tensor("a", [1], type, 0)], data: 4 });
      expect(() => parse(file)).toThrow(expect.objectContaining({ code: "MODEL_UNSUPPORTED" }));
      expect(() => parse(file)).toThrow(message);
    }
  });

  it("asks for more where the file goes on, and never beyond what a header may take", () => {
    const bytes = craft({ keys: [key("a", 8, text("x".repeat(100)))] });
    expect(() => parseGgufHeader(bytes.subarray(0, 60), bytes.length, "x.gguf")).toThrow(NeedsMore);
    const huge = craft({ counts: [0, 1], keys: [text("a"), u32(8), u64(2 ** 40)] });
    expect(() => parseGgufHeader(huge, 2 ** 41, "x.gguf")).toThrow(/header is longer than 100000000/);
    const list = craft({ counts: [0, 1], keys: [text("a"), u32(9), u32(0), u64(2 ** 30)] });
    expect(() => parseGgufHeader(list, 2 ** 41, "x.gguf")).toThrow(/more than 16777216 elements/);
  });

  it("cuts long names, and says what a missing file or a pointer is", async () => {
    const long = "n".repeat(1_000_000);
    const failure = () => parse(craft({ keys: [key(long, 4, u32(1)), key(long, 4, u32(1))] }));
    expect(failure).toThrow(expect.objectContaining({ message: expect.stringMatching(/^.{1,400}$/) }));
    await expect(readGgufHeader(join(dir, "none.gguf"))).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    await expect(readGgufHeader(dir)).rejects.toThrow(/is not a file/);
    const pointer = join(dir, "pointer.gguf");
    await writeFile(pointer, "version https://git-lfs.github.com/spec/v1\n");
    await expect(readGgufHeader(pointer)).rejects.toThrow(/Git LFS pointer/);
  });

  it("is read or refused with a StatesetError in 20,000 mutated files", () => {
    const original = craft({
      keys: [
        key("general.architecture", 8, text("llama")),
        key("general.alignment", 4, u32(32)),
        key("tokens", 9, u32(8), u64(3), text("a"), text("b"), text("c")),
        key("scores", 9, u32(6), u64(2), u32(0), u32(0)),
        key("flag", 7, Buffer.of(1)),
        key("big", 10, u64(5)),
      ],
      tensors: [tensor("token_embd.weight", [32, 4], 8, 0), tensor("b", [4], 0, 160), tensor("c", [256, 1], 12, 192)],
      data: 192 + 144,
    });
    parse(original);
    const headerBytes = original.length - 336;
    const random = createRandom(14);
    const words = [0, 1, 2, 8, 9, 31, 255, 2 ** 31, 2 ** 32 - 1].map(u32);
    let loaded = 0;
    let refused = 0;
    for (let round = 0; round < 20_000; round++) {
      let bytes: Buffer = Buffer.from(original);
      for (let edits = 1 + random.below(2); edits > 0; edits--) {
        const at = random.below(random.next() < 0.9 ? Math.min(headerBytes, bytes.length + 1) : bytes.length + 1);
        switch (random.below(5)) {
          case 0:
            if (at < bytes.length) bytes[at] = random.below(256);
            break;
          case 1:
            bytes = bytes.subarray(0, at);
            break;
          case 2:
            bytes = Buffer.concat([bytes.subarray(0, at), words[random.below(words.length)]!, bytes.subarray(at)]);
            break;
          case 3:
            bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(8))]);
            break;
          default:
            words[random.below(words.length)]!.copy(bytes, Math.min(at, bytes.length));
        }
      }
      try {
        parse(bytes);
        loaded++;
      } catch (error) {
        if (!StatesetError.isInstance(error)) throw new Error(`round ${round}: ${String(error)}`, { cause: error });
        refused++;
      }
    }
    // Both outcomes must occur, or the mutations prove nothing.
    expect(loaded).toBeGreaterThan(500);
    expect(refused).toBeGreaterThan(5000);
  });
});
