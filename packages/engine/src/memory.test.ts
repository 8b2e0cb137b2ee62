import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const script = (name: string) => fileURLToPath(new URL(`../test/${name}`, import.meta.url));
/** Takes memory from the system for every large piece and gives it back, so that the limit counts. */
const allocator = { MALLOC_ARENA_MAX: "1", MALLOC_MMAP_THRESHOLD_: "65536" };

function starve<T>(name: string, ...args: string[]): T {
  const env = { ...process.env, ...allocator };
  return JSON.parse(
    execFileSync(process.execPath, ["--expose-gc", script(name), ...args], { encoding: "utf8", env }),
  ) as T;
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
    const { errors, passes } = starve<{ errors: string[]; passes: number }>("starved.mjs", call);
    expect(errors).toEqual(expect.arrayContaining(pieces.map((piece) => `OUT_OF_MEMORY for ${piece}`)));
    expect(errors.filter((error) => !error.startsWith("OUT_OF_MEMORY for "))).toEqual([]);
    // A pass whose answer could not be given is not kept.
    expect(passes).toBe(0);
  });

  it("gives activations of sampling up for a pass that lacks memory, and computes the same", () => {
    interface Outcome {
      code?: string;
      logprobs?: number[];
      before: number;
      after: number;
      reusedTokens: number;
    }
    interface OutcomeBack {
      code: string;
      gradient?: number[];
      before: number;
      after: number;
    }
    type Way = "without" | "givenUp" | "reused" | "plenty";
    type WayBack = "backWithout" | "backGivenUp" | "backPlenty";
    const outcomes = starve<Record<Way, Outcome> & Record<WayBack, OutcomeBack>>("gives-up.mjs");
    const { without, givenUp, reused, plenty } = outcomes;
    expect(without).toMatchObject({ code: "OUT_OF_MEMORY" });
    expect(givenUp.before).toBeGreaterThan(32 * 2 ** 20);
    expect(givenUp).toMatchObject({ after: 0, reusedTokens: 0, logprobs: plenty.logprobs });
    expect(reused).toMatchObject({ after: reused.before, logprobs: plenty.logprobs });
    expect(reused.reusedTokens).toBeGreaterThan(1_500);
    expect(plenty.logprobs!.every((logprob) => logprob < 0)).toBe(true);
    const { backWithout, backGivenUp, backPlenty } = outcomes;
    expect(backWithout.code).toBe("OUT_OF_MEMORY");
    expect(backGivenUp).toMatchObject({ code: "none", gradient: backPlenty.gradient });
    // What the pass goes on from is still there.
    expect(backGivenUp.after).toBeGreaterThan(0);
    expect(backGivenUp.after).toBeLessThan(backGivenUp.before);
  });
});
