import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StatesetError } from "../../error.ts";
import { createRandom } from "../../random.ts";
import { bf16ToF32, f32ToBf16 } from "./float-formats.ts";
import { isShardOf, openWeightFiles, openWeights, writeSafetensors, writeShards } from "./index.ts";

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "weights-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** A file from its parts, however wrong they are. */
async function craft(header: unknown, dataBytes: number | Uint8Array, headerLength?: bigint): Promise<string> {
  const text = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(headerLength ?? BigInt(text.length));
  const file = join(dir, "crafted.safetensors");
  await writeFile(
    file,
    Buffer.concat([prefix, text, typeof dataBytes === "number" ? Buffer.alloc(dataBytes) : dataBytes]),
  );
  return file;
}

const f32 = (shape: number[], start: number, end: number) => ({ dtype: "F32", shape, data_offsets: [start, end] });

describe("openWeights", () => {
  it("reads what writeSafetensors wrote, in both dtypes, with metadata", async () => {
    const file = join(dir, "round.safetensors");
    const a = Float32Array.from([1.5, -2, 0, 1e-40, 3.4e38, -0]);
    const b = Float32Array.from([0.1, 1, -3]);
    await writeSafetensors(
      file,
      [
        { name: "b", shape: [3], data: b, dtype: "BF16" },
        { name: "a", shape: [2, 3], data: a },
        { name: "empty", shape: [0, 4], data: new Float32Array(0) },
        { name: "scalar", shape: [], data: Float32Array.of(7) },
      ],
      { format: "pt" },
    );
    const weights = await openWeights(file);
    expect([...weights.names].sort()).toEqual(["a", "b", "empty", "scalar"]);
    expect(weights.metadata).toEqual({ format: "pt" });
    expect(weights.info("b")).toEqual({ dtype: "BF16", shape: [3], file });
    expect(await weights.read("a")).toEqual(a);
    expect(await weights.read("b")).toEqual(Float32Array.from([0.10009765625, 1, -3]));
    expect(await weights.read("empty")).toEqual(new Float32Array(0));
    expect(await weights.read("scalar")).toEqual(Float32Array.of(7));
    await weights.close();
    await expect(weights.read("a")).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  });

  it("opens the starter model and keeps its bits through bf16 and back", async () => {
    const weights = await openWeights(starterModelPath);
    const name = weights.names.find((candidate) => candidate.endsWith("embed_tokens.weight"))!;
    expect(weights.info(name)).toMatchObject({ dtype: "BF16", shape: [8192, 320] });
    const values = await weights.read(name);
    const bits = new Uint16Array(values.length);
    f32ToBf16(values, bits);
    const back = new Float32Array(values.length);
    bf16ToF32(bits, back);
    expect(Buffer.from(back.buffer).equals(Buffer.from(values.buffer))).toBe(true);
    await weights.close();
  });

  it("joins shards through the index and checks the index against them", async () => {
    const model = await mkdtemp(join(dir, "sharded-"));
    const tensor = (name: string, value: number) => ({ name, shape: [1], data: Float32Array.of(value) });
    await writeSafetensors(join(model, "model-00001-of-00002.safetensors"), [tensor("x", 1), tensor("y", 2)]);
    await writeSafetensors(join(model, "model-00002-of-00002.safetensors"), [tensor("z", 3)]);
    const index = (weight_map: unknown) =>
      writeFile(join(model, "model.safetensors.index.json"), JSON.stringify({ metadata: {}, weight_map }));
    const [one, two] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

    await index({ x: one, y: one, z: two });
    const weights = await openWeights(model);
    expect(weights.names).toEqual(["x", "y", "z"]);
    expect(await weights.read("z")).toEqual(Float32Array.of(3));
    await weights.close();

    await index({ x: one, z: two });
    await expect(openWeights(model)).rejects.toThrow(/00001-of-00002.*holds tensor "y"/);
    await index({ x: one, y: one, w: two, z: two });
    await expect(openWeights(model)).rejects.toThrow(/00002-of-00002.*lacks tensor "w"/);
    await index({ x: one, y: one, z: "gone.safetensors" });
    await expect(openWeights(model)).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    for (const bad of ["../x.safetensors", "/etc/passwd", "a\\b.safetensors", "", 5, null, "x.bin"]) {
      await index({ x: bad });
      await expect(openWeights(model)).rejects.toMatchObject({ code: "MODEL_INVALID" });
    }
    for (const bad of [{}, [], null, "x"]) {
      await index(bad);
      await expect(openWeights(model)).rejects.toMatchObject({ code: "MODEL_INVALID" });
    }
  });

  it("says what is missing", async () => {
    await expect(openWeights(join(dir, "nowhere"))).rejects.toMatchObject({ code: "MODEL_NOT_FOUND" });
    const empty = await mkdtemp(join(dir, "empty-"));
    await expect(openWeights(empty)).rejects.toThrow(/no model\.safetensors, no .* and no \.gguf file/);
    await writeFile(join(empty, "pytorch_model.bin"), "x");
    await expect(openWeights(empty)).rejects.toMatchObject({ code: "MODEL_UNSUPPORTED" });
    await writeFile(join(empty, "model.safetensors"), "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
    await expect(openWeights(empty)).rejects.toThrow(/Git LFS pointer/);
  });

  it("refuses NaN and infinities, naming the tensor, unless told otherwise", async () => {
    const file = join(dir, "nan.safetensors");
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      await writeSafetensors(file, [{ name: "w", shape: [4], data: Float32Array.of(0, 1, bad, 2), dtype: "BF16" }]);
      const weights = await openWeights(file);
      await expect(weights.read("w")).rejects.toThrow(/tensor "w" holds (NaN|Infinity) at element 2/);
      expect((await weights.read("w", { allowNonFinite: true }))[2]).toBe(bad);
      await weights.close();
    }
  });

  it.each<[string, unknown, number, RegExp]>([
    ["data past the end", { a: f32([4], 0, 16) }, 8, /"a".*ends at byte 16.*truncated/],
    ["backward offsets", { a: f32([0], 8, 4) }, 8, /backwards/],
    ["overlap", { a: f32([2], 0, 8), b: f32([2], 4, 12) }, 12, /"a" and "b" overlap/],
    ["same place twice", { a: f32([1], 0, 4), b: f32([1], 0, 4) }, 4, /overlap/],
    ["gap", { a: f32([1], 0, 4), b: f32([1], 8, 12) }, 12, /4 bytes before tensor "b"/],
    ["surplus bytes", { a: f32([1], 0, 4) }, 9, /last 5 bytes/],
    ["shape and size disagree", { a: f32([3], 0, 8) }, 8, /shape \[3\] of F32/],
    ["product overflow", { a: f32([2 ** 32, 2 ** 32], 0, 0) }, 0, /does not take/],
    ["product that wraps to the right size", { a: f32([2 ** 31, 2 ** 31, 4, 0], 0, 4) }, 4, /does not take/],
    ["negative size", { a: f32([-1], 0, 4) }, 4, /not a list of sizes/],
    ["fractional size", { a: f32([0.5], 0, 2) }, 2, /not a list of sizes/],
    ["huge offsets", { a: f32([1], 1e300, 1e300) }, 4, /data_offsets/],
    ["negative offset", { a: f32([1], -4, 0) }, 4, /data_offsets/],
    ["one offset", { a: { dtype: "F32", shape: [1], data_offsets: [0] } }, 4, /data_offsets/],
    ["text shape", { a: { dtype: "F32", shape: "1", data_offsets: [0, 4] } }, 4, /not a list of sizes/],
    ["unknown dtype", { a: { dtype: "F12", shape: [1], data_offsets: [0, 4] } }, 4, /unknown dtype "F12"/],
    ["inherited dtype", { a: { dtype: "toString", shape: [1], data_offsets: [0, 4] } }, 4, /unknown dtype/],
    ["no dtype", { a: { shape: [1], data_offsets: [0, 4] } }, 4, /unknown dtype/],
    ["surplus field", { a: { ...f32([1], 0, 4), extra: 1 } }, 4, /unknown field "extra"/],
    ["entry is null", { a: null }, 0, /not an object/],
    ["metadata of numbers", { __metadata__: { a: 1 } }, 0, /__metadata__/],
    ["header is a list", "[]", 0, /not a JSON object/],
    ["header is not JSON", "{", 0, /not JSON/],
    [
      "duplicate tensor",
      '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\\u0061" :{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
      4,
      /names "a" twice/,
    ],
    [
      "duplicate field",
      '{"a":{"dtype":"F32","dtype":"BF16","shape":[2],"data_offsets":[0,4]}}',
      4,
      /names "dtype" twice/,
    ],
  ])("refuses %s", async (_, header, dataBytes, message) => {
    const failure = await openWeights(await craft(header, dataBytes)).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "MODEL_INVALID" });
    expect(String(failure)).toMatch(message);
    expect(String(failure)).toContain("crafted.safetensors");
  });

  it("refuses absurd header lengths without allocating them", async () => {
    for (const length of [2n ** 64n - 1n, 2n ** 63n, 1_000_000n, 3n]) {
      await expect(openWeights(await craft("{}", 0, length))).rejects.toMatchObject({ code: "MODEL_INVALID" });
    }
    for (const bytes of [0, 7]) {
      const file = join(dir, "short.safetensors");
      await writeFile(file, Buffer.alloc(bytes));
      await expect(openWeights(file)).rejects.toThrow(new RegExp(`only ${bytes} bytes`));
    }
  });

  it("survives deep nesting, long names, __proto__ and header bytes that are not UTF-8", async () => {
    await expect(openWeights(await craft(`{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, 0))).rejects.toThrow(
      /"a"/,
    );
    const failure = await openWeights(await craft({ ["n".repeat(1_000_000)]: 1 }, 0)).catch((error: unknown) => error);
    expect(String(failure).length).toBeLessThan(500);
    const prototype = await openWeights(
      await craft('{"__proto__":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', 4),
    );
    expect(prototype.names).toEqual(["__proto__"]);
    await prototype.close();
    const file = await craft("{}", 0);
    const bytes = await readFile(file);
    bytes[9] = 0xff;
    await writeFile(file, bytes);
    await expect(openWeights(file)).rejects.toMatchObject({ code: "MODEL_INVALID" });
  });

  it("opens files with integer tensors, and refuses only to read those", async () => {
    const header = { ids: { dtype: "I64", shape: [1], data_offsets: [0, 8] }, w: f32([1], 8, 12) };
    const weights = await openWeights(await craft(header, 12));
    expect(await weights.read("w")).toEqual(Float32Array.of(0));
    await expect(weights.read("ids")).rejects.toMatchObject({ code: "MODEL_UNSUPPORTED" });
    await expect(weights.read("none")).rejects.toMatchObject({ code: "MODEL_INVALID" });
    await weights.close();
  });

  it("loads or throws a StatesetError on 3,000 mutated files", async () => {
    const source = join(dir, "seed.safetensors");
    const random = createRandom(20260);
    await writeSafetensors(
      source,
      [
        { name: "a.weight", shape: [4, 3], data: Float32Array.from({ length: 12 }, () => random.next()) },
        { name: "a.bias", shape: [4], data: new Float32Array(4) },
        { name: "b", shape: [2, 2], data: new Float32Array(4), dtype: "BF16" },
      ],
      { format: "pt" },
    );
    const original = await readFile(source);
    const file = join(dir, "mutated.safetensors");
    const interesting = [
      '"',
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "-",
      "9",
      "e",
      "\\",
      "null",
      "F16",
      "1e999",
      "\0",
      "18446744073709551616",
    ];
    let loaded = 0;
    let refused = 0;
    for (let round = 0; round < 3000; round++) {
      let bytes = Buffer.from(original);
      for (let edits = 1 + random.below(2); edits > 0; edits--) {
        // Most edits hit the length and the header; the data behind it is opaque.
        const at = random.below(random.next() < 0.8 ? original.length - 72 : bytes.length + 1);
        switch (random.below(5)) {
          case 0:
            if (at < bytes.length) bytes[at] = random.below(256);
            break;
          case 1:
            bytes = bytes.subarray(0, at);
            break;
          case 2:
            bytes = Buffer.concat([
              bytes.subarray(0, at),
              Buffer.from(interesting[random.below(interesting.length)]!),
              bytes.subarray(at),
            ]);
            break;
          case 3:
            bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(8))]);
            break;
          default:
            Buffer.from(interesting[random.below(interesting.length)]!).copy(bytes, Math.min(at, bytes.length));
        }
      }
      await writeFile(file, bytes);
      try {
        const weights = await openWeights(file);
        try {
          for (const name of weights.names) await weights.read(name);
        } finally {
          await weights.close();
        }
        loaded++;
      } catch (error) {
        if (!StatesetError.isInstance(error)) throw new Error(`round ${round}: ${String(error)}`, { cause: error });
        refused++;
      }
    }
    // Both outcomes must occur, or the mutations prove nothing.
    expect(loaded).toBeGreaterThan(50);
    expect(refused).toBeGreaterThan(1500);
  });
});

describe("writeSafetensors", () => {
  it("gives the same bytes whatever the order of the tensors", async () => {
    const tensors = [
      { name: "b", shape: [1], data: Float32Array.of(1) },
      { name: "a", shape: [1], data: Float32Array.of(2), dtype: "BF16" as const },
      { name: "10", shape: [1], data: Float32Array.of(3) },
    ];
    await writeSafetensors(join(dir, "1.safetensors"), tensors);
    await writeSafetensors(join(dir, "2.safetensors"), tensors.toReversed());
    const [one, two] = await Promise.all([1, 2].map((n) => readFile(join(dir, `${n}.safetensors`))));
    expect(one!.equals(two!)).toBe(true);
  });

  it("asks for one tensor at a time, when its turn comes, and says whose failure it was", async () => {
    const file = join(dir, "streamed.safetensors");
    const whole = join(dir, "whole.safetensors");
    const numbers = (i: number) => Float32Array.from({ length: 6 }, (_, k) => i + k);
    const names = ["a", "b", "c"];
    await writeSafetensors(
      whole,
      names.map((name, i) => ({ name, shape: [2, 3], data: numbers(i) })),
    );
    let open = 0;
    await writeSafetensors(
      file,
      names.map((name, i) => ({
        ...{ name, shape: [2, 3] },
        async data() {
          expect(++open).toBe(1);
          await new Promise((resolve) => setImmediate(resolve));
          open--;
          return numbers(i);
        },
      })),
    );
    expect(await readFile(file)).toEqual(await readFile(whole));
    const broken = (data: () => Promise<Float32Array>) => writeSafetensors(file, [{ name: "a", shape: [2, 3], data }]);
    const closed = new StatesetError("POLICY_CLOSED", "closed meanwhile");
    await expect(broken(() => Promise.reject(closed))).rejects.toBe(closed);
    await expect(broken(async () => new Float32Array(5))).rejects.toThrow("needs 6 numbers and has 5");
    expect(await readFile(file)).toEqual(await readFile(whole));
  });

  it("leaves the old file and no litter behind when it fails", async () => {
    const target = await mkdtemp(join(dir, "atomic-"));
    const file = join(target, "model.safetensors");
    await writeSafetensors(file, [{ name: "a", shape: [1], data: Float32Array.of(1) }]);
    const before = await readFile(file);
    const bad = { name: "a", shape: [2], data: Float32Array.of(1) };
    await expect(writeSafetensors(file, [bad])).rejects.toMatchObject({ code: "INVALID_OPTION" });
    const twice = { name: "a", shape: [1], data: Float32Array.of(1) };
    await expect(writeSafetensors(file, [twice, twice])).rejects.toThrow(/twice/);
    expect(await readdir(target)).toEqual(["model.safetensors"]);
    expect((await readFile(file)).equals(before)).toBe(true);
    // The folder is a file: there is nothing that could be removed either.
    await expect(writeSafetensors(join(file, "x.safetensors"), [twice])).rejects.toMatchObject({
      code: "WRITE_FAILED",
      hint: expect.stringMatching(/permissions/),
    });
    // The target is a folder: the rename fails after everything was written.
    await expect(writeSafetensors(target, [twice])).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect((await readdir(dir)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });
});

describe("writeShards", () => {
  it("cuts by name where a file would be too large, hashes each as it is written, and is read as one", async () => {
    const to = await mkdtemp(join(dir, "shards-"));
    const sizes = { e: 2, a: 5, c: 40, b: 5, d: 3 };
    const tensors = Object.entries(sizes).map(([name, size]) => ({
      ...{ name, shape: [size] },
      data: async () => Float32Array.from({ length: size }, (_, i) => i + size / 8),
    }));
    const files = await writeShards(to, "policy", tensors, 40);
    const weights = await openWeightFiles(files.map(({ file }) => join(to, file)));
    const homes = weights.names.map((name) => `${name} ${weights.info(name).file.slice(-26, -12)}`);
    expect(homes).toEqual([
      "a 00001-of-00003",
      "b 00001-of-00003",
      "c 00002-of-00003",
      "d 00003-of-00003",
      "e 00003-of-00003",
    ]);
    for (const [name, size] of Object.entries(sizes))
      expect((await weights.read(name))[size - 1]).toBe((9 / 8) * size - 1);
    await weights.close();
    for (const { file, bytes, sha256 } of files) {
      expect(isShardOf("policy", file)).toBe(true);
      const content = await readFile(join(to, file));
      expect([bytes, sha256]).toEqual([content.length, createHash("sha256").update(content).digest("hex")]);
    }
    expect(isShardOf("policy", "policy-1-of-1.safetensors")).toBe(false);
    expect(isShardOf("policy", "reference-00001-of-00001.safetensors")).toBe(false);
  });

  it("hashes a tensor of several pieces and of bf16", async () => {
    const file = join(dir, "large.safetensors");
    const data = Float32Array.from({ length: 3 << 20 }, (_, i) => Math.sin(i));
    for (const dtype of ["F32", "BF16"] as const) {
      const hash = createHash("sha256");
      const bytes = await writeSafetensors(file, [{ name: "a", shape: [data.length], data, dtype }], {}, hash);
      const content = await readFile(file);
      expect(content.length).toBe(bytes);
      expect(hash.digest("hex")).toBe(createHash("sha256").update(content).digest("hex"));
    }
  });
});
