/** trajectories/step-000123.jsonl: the conversations a step learnt from, one a line, in the OpenAI chat format with their reward. */
import { join } from "node:path";
import type { TrajectoryGroup, Turn } from "../conversation/trajectory.ts";
import { writeFileAtomic } from "../durable.ts";
import { pathIn, stepName } from "./layout.ts";

export function writeTrajectories(dir: string, step: number, groups: readonly TrajectoryGroup[]): void {
  const lines = groups.flatMap(({ id: group, trajectories }) =>
    trajectories.map(({ id, scenarioId, turns, reward, ended, stub }) =>
      JSON.stringify({
        ...{ id, group, scenarioId, step, messages: turns.map(withoutSampled), reward, ended },
        ...(stub && { stub }),
      }),
    ),
  );
  writeFileAtomic(
    join(pathIn(dir, "trajectories"), `${stepName(step)}.jsonl`),
    lines.map((line) => `${line}\n`).join(""),
  );
}

/** Kept with the tokens, where those are written. */
function withoutSampled({ sampled: _, ...turn }: Turn): Turn {
  return turn;
}
