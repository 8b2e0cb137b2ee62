import { describe, expect, it } from "vitest";
import { f16ToF32, f32ToF16 } from "../weights/float-formats.ts";
import { dequantise, type ReadableType, requireReadable } from "./dequantise.ts";
import golden from "./fixtures/ggml-blocks.json" with { type: "json" };
import { ggmlFormat } from "./ggml-types.ts";
import { quantise, writableTypes } from "./quantise.ts";

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "base64"));
const floatsOf = (text: string) => new Float32Array(bytesOf(text).buffer);
const bits = (values: Float32Array) => Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("hex");

/** Made by the Python package `gguf`: scripts/golden/ggml.py. */
describe("blocks of GGUF files", () => {
  it.each(Object.entries(golden.read))("reads %s to the bit", (type, { bytes, values }) => {
    const wanted = floatsOf(values);
    const out = new Float32Array(wanted.length);
    dequantise(type as ReadableType, bytesOf(bytes), out);
    expect(bits(out)).toBe(bits(wanted));
    // Also where the bytes begin at an odd address.
    const odd = new Uint8Array(bytesOf(bytes).length + 1);
    odd.set(bytesOf(bytes), 1);
    dequantise(type as ReadableType, odd.subarray(1), out.fill(0));
    expect(bits(out)).toBe(bits(wanted));
  });

  it("covers every type that is read, and refuses the others by name", () => {
    const read = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"];
    expect(Object.keys(golden.read)).toEqual(read);
    for (const type of read) expect(requireReadable(type as ReadableType, "w", "x.gguf")).toBe(type);
    expect(() => requireReadable("IQ4_XS", "blk.0.attn_q.weight", "x.gguf")).toThrow(
      /x\.gguf: tensor "blk.0.attn_q.weight" has the type IQ4_XS.*Q4_K/,
    );
  });

  it.each(writableTypes)("writes %s to the bit", (type) => {
    const out = quantise(type, floatsOf(golden.numbers), "w");
    expect(Buffer.from(out).toString("base64")).toBe(golden.written[type]);
    const { block, bytes } = ggmlFormat(type);
    expect(out.length).toBe((floatsOf(golden.numbers).length / block) * bytes);
  });

  it("refuses numbers that a half cannot hold", () => {
    expect(() => quantise("F16", Float32Array.of(1, 65520), "w")).toThrow(/"w" holds 65520/);
    expect(() => quantise("Q8_0", new Float32Array(32).fill(1e7), "w")).toThrow(/10000000/);
  });

  it("writes every half as it was read", () => {
    const halves = Uint16Array.from({ length: 0x10000 }, (_, i) => i);
    const values = new Float32Array(halves.length);
    f16ToF32(halves, values);
    const back = new Uint16Array(halves.length);
    f32ToF16(values, back);
    const changed = halves.filter((half, i) =>
      Number.isNaN(values[i]!) ? (back[i]! & 0x7e00) !== 0x7e00 : back[i] !== half,
    );
    expect([...changed]).toEqual([]);
  });

  it("rounds to the nearest half, ties to even", () => {
    const back = new Uint16Array(7);
    f32ToF16(
      Float32Array.of(
        1 + 2 ** -11,
        1 + 3 * 2 ** -11,
        2 ** -25,
        1.5 * 2 ** -25,
        3 * 2 ** -25,
        65519.99,
        2 ** -14 - 2 ** -26,
      ),
      back,
    );
    expect([...back]).toEqual([0x3c00, 0x3c02, 0, 1, 2, 0x7bff, 0x0400]);
  });
});
