import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const script = fileURLToPath(new URL("../test/starved.mjs", import.meta.url));
/** Takes memory from the system for every large piece and gives it back, so that the limit counts. */
const allocator = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "65536" };

function starve(call: string): { errors: string[]; passes: number } {
  const env = { ...process.env, ...allocator };
  return JSON.parse(execFileSync(process.execPath, ["--expose-gc", script, call], { encoding: "utf8", env }));
}

// Without it nothing here can take memory from a process that runs.
const limits = spawnSync("prlimit", ["--version"]).status === 0;

describe.skipIf(!limits)("a process that may take no more memory", () => {
  it.each([
    ["readFlat", ["all parameters in one piece", "the answer"]],
    ["writeFlat", ["values", "a second version of the weights"]],
    ["hidden", ["activations", "hidden states", "the answer"]],
    ["positions", ["rotary positions", "activations"]],
  ])("lives on after %s, and the model is the same", (call, pieces) => {
    const { errors, passes } = starve(call);
    expect(errors).toEqual(expect.arrayContaining(pieces.map((piece) => `OUT_OF_MEMORY for ${piece}`)));
    expect(errors.filter((error) => !error.startsWith("OUT_OF_MEMORY for "))).toEqual([]);
    // A pass whose answer could not be given is not kept.
    expect(passes).toBe(0);
  });
});
