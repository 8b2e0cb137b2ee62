import { mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { RetainedTraining } from "@stateset-agents/engine";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { makeTinyModel } from "../../../test/tiny-model.ts";
import { readModelConfig } from "./model-config.ts";
import { writeSnapshot } from "./snapshot.ts";
import { type TensorPlace, tensorPlaces } from "./tensor-names.ts";
import { saveWeights } from "./weights.ts";

/** Gives out tensors, and notes how many bytes of those before were not in the file yet: what is held in memory meanwhile. */
function reader(dir: string) {
  let given = 0;
  let held = 0;
  const give = (numbers: number): Float32Array => {
    const file = readdirSync(dir).find((name) => name.includes(".safetensors"));
    held = Math.max(held, given - (file === undefined ? 0 : statSync(join(dir, file)).size));
    given += 4 * numbers;
    return new Float32Array(numbers);
  };
  return { give, held: () => held, given: () => given };
}

it("writes each tensor of a snapshot, and its moments, before it reads the next", async () => {
  const dir = join(await temporaryFolder(), "snapshot");
  mkdirSync(dir);
  const places = Array.from({ length: 40 }, (_, i): TensorPlace => {
    const parts = [{ engine: `layers.${i}.q.weight`, from: 0, rows: 64 }];
    return { name: `model.layers.${i}.self_attn.q_proj.weight`, shape: [64, 64], transposed: false, parts };
  });
  const from = reader(dir);
  const trained = {
    steps: [1, 0],
    readTensor: async () => from.give(64 * 64),
    readMoments: async () => [from.give(64 * 64), new Float32Array(64 * 64)],
  } as unknown as RetainedTraining;
  const state = { architecture: "llama", lora: null, moments: "f32", dropoutPasses: 0, version: "v" } as const;
  await writeSnapshot(dir, trained, places, state);
  expect(from.given()).toBe(2 * 40 * 4 * 64 * 64);
  expect(from.held()).toBeLessThanOrEqual(0);
});

it("writes each tensor of a model before it reads the next", async () => {
  const source = await makeTinyModel("llama");
  const dir = join(await temporaryFolder(), "saved");
  mkdirSync(dir);
  const config = await readModelConfig(source);
  // In a llama every tensor of the file is one of the engine.
  const places = tensorPlaces(config.architecture, config.engine);
  const sizes = new Map(places.map(({ parts: [part], shape }) => [part!.engine, shape.reduce((a, b) => a * b, 1)]));
  const from = reader(dir);
  await saveWeights(
    dir,
    source,
    config,
    async (name) => from.give(sizes.get(name)!),
    async () => {},
  );
  expect(from.given()).toBeGreaterThan(0);
  expect(from.held()).toBeLessThanOrEqual(0);
});
