import { expect, it } from "vitest";
import { heldOutGroups } from "./held-out-groups.ts";

const run = (key: string, metric: string | null, algorithm: string) => ({
  ...{ key, metric, algorithm },
  ...{ before: null, after: null },
});

it("puts together what can stand on one scale, and knows which way is better", () => {
  const groups = heldOutGroups([
    run("a", "report/reward", "grpo"),
    run("b", "held-out/loss", "sft"),
    run("c", "held-out/loss", "dpo"),
    run("d", "report/reward", "ppo"),
    run("e", "selection/reward", "grpo"),
    run("f", null, "grpo"),
  ]);
  expect(groups.map(({ lowerIsBetter, runs }) => [lowerIsBetter, runs.map(({ key }) => key).join()])).toEqual([
    [false, "a,d"],
    [true, "b"],
    [true, "c"],
    [false, "e"],
  ]);
  expect(groups[1]!.words).toBe("loss of sft, on held-out data: lower is better");
});
