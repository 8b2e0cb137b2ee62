import { afterAll, beforeAll } from "vitest";
import { readModelConfig } from "../src/policy/native/model-config.ts";
import { makeTinyModel } from "./tiny-model.ts";

/** The AMX unit takes f32 weights alone, and its bits are its own: tests that compare forms of the same weights do without it. */
export function withoutAmx(): void {
  let forced: string | undefined;
  beforeAll(async () => {
    const { openModel } = await import("@stateset-agents/engine");
    const { engine } = await readModelConfig(await makeTinyModel("llama"));
    const model = await openModel(engine, { threads: 1, slots: 1, cacheBytes: 1 << 20 });
    forced = process.env.STATESET_SIMD;
    if (model.simd === "amx") process.env.STATESET_SIMD = "avx512";
    await model.close();
  });
  afterAll(() => {
    if (forced === undefined) delete process.env.STATESET_SIMD;
    else process.env.STATESET_SIMD = forced;
  });
}
