import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { architectures, ggufArchitectures, makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { readModelConfig } from "../native/model-config.ts";
import { openPolicy } from "../open-policy.ts";
import type { Policy } from "../policy.ts";
import { exportGguf, writeModelAsGguf } from "./export-gguf.ts";

const lora = { rank: 2, alpha: 4, dropout: 0, targetModules: "all-linear" } as const;

async function learn(policy: Policy): Promise<void> {
  const tokens = Int32Array.from([1, 20, 30, 40]);
  const { tree } = buildTokenTree([{ tokens, learn: Uint8Array.of(0, 1, 1, 1) }]);
  const pass = await policy.forward(tree);
  await policy.backward(pass, { logprobs: new Float32Array(pass.logprobs.length).fill(-1) });
  await policy.step({ learningRate: 0.05 });
}

describe.each(ggufArchitectures)("a GGUF file of a trained %s", (architecture) => {
  it("is, byte for byte, that of the merged model written to a folder first", async () => {
    const policy = await openPolicy({ model: await makeTinyModel(architecture), lora, threads: 1, seed: 3 });
    await learn(policy);
    await learn(policy);
    const dir = temporaryFolder();
    const [merged, file, other] = ["merged", "model.gguf", "model.other.gguf"].map((name) => join(dir, name));
    await policy.save(merged!, { merge: true });
    for (const type of ["f32", "f16", "q8_0"] as const) {
      const { halved } = await policy.saveGguf!(file!, { type });
      const written = { dir: merged!, file: other!, type: type.toUpperCase() as "F32", name: "model" };
      expect(await exportGguf(written)).toEqual({ halved });
      expect(readFileSync(file!).equals(readFileSync(other!)), type).toBe(true);
    }
    await policy.close();
    // Nothing but what was asked for is left behind.
    expect(readdirSync(dir).sort()).toEqual(["merged", "model.gguf", "model.other.gguf"]);
  });
});

describe("writing a GGUF file", () => {
  it("reads a tensor when the one before is in the file: one is in memory at a time", async () => {
    const source = await makeTinyModel("llama");
    const config = await readModelConfig(source);
    const dir = temporaryFolder();
    const file = join(dir, "model.gguf");
    let given = 0;
    let held = 0;
    const read = async ({ shape }: { shape: readonly number[] }) => {
      const [partial] = readdirSync(dir);
      held = Math.max(held, given - (partial === undefined ? 0 : statSync(join(dir, partial)).size));
      const numbers = new Float32Array(shape.reduce((a, b) => a * b, 1));
      given += numbers.byteLength;
      return numbers;
    };
    await writeModelAsGguf({ config, tokenizer: source, read }, { file, type: "F32", name: "tiny" });
    expect(given).toBeGreaterThan(0);
    expect(held).toBeLessThanOrEqual(0);
  });

  it("goes from one GGUF file to another as it does by way of a folder", async () => {
    const dir = temporaryFolder();
    const [first, again, folder, last] = ["a.gguf", "b.gguf", "folder", "c.gguf"].map((name) => join(dir, name));
    await exportGguf({ dir: await makeTinyModel("llama"), file: first!, type: "F16", name: "x" });
    await exportGguf({ dir: first!, file: again!, type: "Q8_0", name: "x" });
    const policy = await openPolicy({ model: first!, threads: 1 });
    await policy.save(folder!);
    await policy.close();
    await exportGguf({ dir: folder!, file: last!, type: "Q8_0", name: "x" });
    expect(readFileSync(again!).equals(readFileSync(last!))).toBe(true);
  });

  it("never replaces the base model of the adapter it merges", async () => {
    const dir = temporaryFolder();
    const file = join(dir, "base.gguf");
    await exportGguf({ dir: await makeTinyModel("llama"), file, type: "F16", name: "x" });
    const before = readFileSync(file);
    const policy = await openPolicy({ model: file, lora, threads: 1 });
    mkdirSync(join(dir, "links"));
    symlinkSync(file, join(dir, "links", "other.gguf"));
    for (const path of [file, join(dir, "links", "other.gguf")]) {
      await expect(policy.saveGguf!(path)).rejects.toThrow(/is the base model of the adapter/);
    }
    await policy.close();
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it("refuses by name what it does not know, before anything is there", async () => {
    const dir = temporaryFolder();
    const others = architectures.filter((name) => !(ggufArchitectures as readonly string[]).includes(name));
    expect(others).toContain("gemma3_text");
    const write = async (model: string) =>
      exportGguf({ dir: model, file: join(dir, "x.gguf"), type: "F16", name: "x" });
    for (const name of others) {
      await expect(write(await makeTinyModel(name))).rejects.toThrow(`x is a ${name}, which is not written as a GGUF`);
    }
    const mixed = { use_sliding_window: true, sliding_window: 7, max_window_layers: 1 };
    await expect(write(await makeTinyModel("qwen2", mixed))).rejects.toThrow(
      "a sliding window in only some of its layers",
    );
    expect(readdirSync(dir)).toEqual([]);
  });

  it("takes no option that it does not know", async () => {
    const policy = await openPolicy({ model: await makeTinyModel("llama"), threads: 1 });
    const options = { typ: "f16" } as object;
    await expect(policy.saveGguf!("x.gguf", options)).rejects.toThrow(/saveGguf\(\).*typ/);
    await policy.close();
  });
});
