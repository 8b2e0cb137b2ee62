/** A short cut of the proof: at defaults, on the starter model, a reward is learnt, and unlearnt with its sign flipped. */
import { expect, it } from "vitest";
import { measureStarter, type StarterJob } from "../benchmarks/proof/starter/measure.ts";
import { mean } from "../benchmarks/proof/starter/verdict.ts";

async function heldOut(job: Pick<StarterJob, "learner" | "sign">): Promise<number> {
  return mean((await measureStarter({ part: "starter", task: "echo", seed: 1, steps: 8, ...job })).scenarios);
}

it.each(["grpo", "ppo"] as const)("%s learns what it is paid for", { timeout: 300_000 }, async (algorithm) => {
  const learner = { by: "defaults", algorithm } as const;
  const [right, flipped] = await Promise.all(([1, -1] as const).map((sign) => heldOut({ learner, sign })));
  // The untrained model scores 0.40; nothing learnt would be no difference at all.
  expect(right! - flipped!).toBeGreaterThan(0.08);
  expect(right).toBeGreaterThan(0.4);
  expect(flipped).toBeLessThan(0.4);
});
