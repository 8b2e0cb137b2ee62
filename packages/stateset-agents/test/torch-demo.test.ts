/** What the demo teaches, on the torch engine: a few steps here; all of them, for three seeds, with `npm run soak`. Needs STATESET_PYTHON. */
import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../src/agent/multi-turn-agent.ts";
import { trainingReward } from "../src/cli/demo/demo-task.ts";
import { politeTask } from "../src/cli/demo/parts.ts";
import { gain } from "../src/test-support/table-training.ts";
import { train } from "../src/training/train.ts";
import { python, TorchWorkers } from "./torch-workers.ts";

// Half of the reward is for at most ten words: replies must have room for more, or there is little to lose.
const soak = process.env.STATESET_SOAK !== undefined;

describe.skipIf(!python)("the demo on the torch engine", { timeout: soak ? 3_600_000 : 300_000 }, () => {
  const workers = new TorchWorkers();

  it.each(soak ? [1, 2, 3] : [1])(
    "teaches what is paid for, and the contrary with the sign flipped (seed %i)",
    async (seed) => {
      const curve = async (kind: "polite" | "flipped") => {
        const policy = await workers.open({ dir: starterModelPath });
        const { run } = await train({
          agent: new MultiTurnAgent({ policy, sampling: { temperature: 0.9, maxTokens: soak ? 64 : 32 } }),
          environment: politeTask.training(),
          reward: trainingReward(politeTask, kind),
          ...politeTask.settings,
          ...(!soak && { steps: 6, maxTurns: 1 }),
          seed,
          dir: false,
        });
        await policy.close();
        return run.metrics.map(({ reward }) => (kind === "flipped" ? -reward! : reward!));
      };
      const [up, down] = [await curve("polite"), await curve("flipped")];
      // Both see the same scenarios in the same order; over so few steps these differ more than a curve falls.
      const ends = [up, down].map((of) => of.slice(-3).reduce((sum, reward) => sum + reward / 3, 0));
      expect(ends[0]! - ends[1]!).toBeGreaterThan(0.1);
      if (soak) {
        expect(gain(up)).toBeGreaterThan(0.05);
        expect(gain(down)).toBeLessThan(-0.05);
      }
    },
  );
});
