import type { Agent } from "../agent/agent.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { type ChosenAlgorithm, chosenAlgorithm } from "../algorithm/algorithm-choice.ts";
import { algorithmNames, defaultGroupSize } from "../algorithm/algorithms.ts";
import { StatesetError } from "../error.ts";
import { resolveConfig, type TrainingConfig } from "./config.ts";
import { changesOf, readSavedConfig, type SavedConfig, withSaved } from "./saved-run.ts";
import { splitOptions, type TrainOptions, type TrainParts } from "./train-options.ts";

export interface ResolvedRun<A extends Agent = Agent> {
  parts: TrainParts<A>;
  algorithm: Algorithm;
  /** Complete: what was given, then the resumed run's, then the defaults of algorithm, profile and model. */
  config: TrainingConfig;
  /** The resumed run. */
  saved: SavedConfig | undefined;
  /** What the resumed run does differently from here on, in words. */
  changes: string | undefined;
}

/** What was given, over what the resumed run had of the same algorithm; GRPO when neither names one. */
function algorithmOf(chosen: ChosenAlgorithm, saved: SavedConfig | undefined): Algorithm {
  if (typeof chosen?.loss === "function") return chosenAlgorithm(chosen);
  const given = chosen as Record<string, unknown> | undefined;
  const before = saved?.algorithm;
  const name = given?.algorithm ?? before?.algorithm ?? "grpo";
  if (before && name === before.algorithm && !(algorithmNames as unknown[]).includes(name)) {
    throw new StatesetError(
      "INVALID_OPTION",
      `The run "${saved.id}" was trained with an algorithm of your own, "${name}".`,
      {
        hint: "Give it to train() as `algorithm`, as before.",
      },
    );
  }
  const own = { ...(name === before?.algorithm && before), ...given, algorithm: name };
  return chosenAlgorithm(own);
}

/** What train() will do with these options. Loads the agent's model. */
export async function resolveRun<A extends Agent>(options: TrainOptions<A>): Promise<ResolvedRun<A>> {
  const { parts, training, algorithm: chosen } = splitOptions(options);
  const saved = parts.resumeFrom === undefined ? undefined : readSavedConfig(parts.resumeFrom);
  const algorithm = algorithmOf(chosen, saved);
  await parts.agent.initialize();
  const config = resolveConfig(saved ? withSaved(training, saved) : training, {
    defaults: { groupSize: defaultGroupSize(algorithm.name) },
    profile: parts.profile ?? saved?.training.profile ?? "balanced",
    model: parts.agent.policy.model,
  });
  if (algorithm.comparesGroups && config.groupSize < 2) {
    throw new StatesetError(
      "INVALID_OPTION",
      `${algorithm.name} compares the conversations of a group, and groupSize is 1.`,
      {
        hint: "Set groupSize to 2 or more, or choose ppo, a2c, vapo, reinforce or reinforce++.",
      },
    );
  }
  return { parts, algorithm, config, saved, changes: saved && changesOf(saved, algorithm, config) };
}
