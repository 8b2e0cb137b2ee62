import type { Agent } from "../agent/agent.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { type ChosenAlgorithm, chosenAlgorithm } from "../algorithm/algorithm-choice.ts";
import { algorithmNames, defaultGroupSize } from "../algorithm/algorithms.ts";
import { describeList } from "../describe.ts";
import { Environment } from "../environment/environment.ts";
import { StatesetError } from "../error.ts";
import { runDirOf } from "../run/checkpoint/store.ts";
import { type Change, modelFacts, type RunConfig, readConfig } from "../run/config.ts";
import { changesOnResume, requireLearner } from "../run/open-run.ts";
import { mergeOptions, resolveConfig, type TrainingConfig, type TrainingOptions } from "./config.ts";
import { splitOptions, type TrainOptions, type TrainParts } from "./train-options.ts";

export interface ResolvedRun<A extends Agent = Agent> {
  parts: TrainParts<A>;
  algorithm: Algorithm;
  /** Complete: what was given, then the resumed run's, then the defaults of algorithm, profile and model. */
  config: TrainingConfig;
  /** What config.json will say. */
  facts: Omit<RunConfig, "version" | "id" | "forkedFrom">;
  /** What the resumed run does differently from here on. */
  changes: Change[];
}

/** What train() will do with these options. Loads the agent's model. */
export async function resolveRun<A extends Agent>(options: TrainOptions<A>): Promise<ResolvedRun<A>> {
  const { parts, training, algorithm: chosen } = splitOptions(options);
  const { agent, environment, harness, reward, heldOut, resumeFrom } = parts;
  const saved = resumeFrom === undefined ? undefined : readConfig(runDirOf(resumeFrom));
  if (saved) requireLearner(saved, ["rl"], "train()");
  const algorithm = algorithmOf(chosen, saved);
  await agent.initialize();
  const before = saved?.settings as TrainingConfig | undefined;
  const config = resolveConfig(before ? withSaved(training, before) : training, {
    defaults: {
      groupSize: defaultGroupSize(algorithm.name),
      // Far from the reference only k2 has the gradient of the KL, and it is from afar that autoAdjust brings a policy back.
      ...(mayAdjustKl(parts) && { kl: { estimator: "k2" } }),
    },
    profile: parts.profile ?? before?.profile ?? "balanced",
    model: agent.policy.model,
    policy: agent.policy,
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
  if (config.earlyStopping && (!heldOut || config.evaluation.every === 0)) {
    throw new StatesetError(
      "INVALID_OPTION",
      "earlyStopping would never stop the run: there are no evaluations on the way.",
      {
        hint: "Give held-out scenarios (heldOut) and evaluation.every above 0, or leave out earlyStopping.",
      },
    );
  }
  const facts: ResolvedRun["facts"] = {
    learner: "rl",
    model: modelFacts(agent.policy.model),
    algorithm: { ...algorithm.options, algorithm: algorithm.name },
    settings: { ...config },
    agent: agent.describe(),
    ...(environment && { environment: environment.describe() }),
    ...(harness && { harness: harness.describe() }),
    ...(heldOut && { heldOut: describeHeldOut(heldOut) }),
    ...(reward && { reward: reward.describe() }),
  };
  return { parts, algorithm, config, facts, changes: saved ? changesOnResume(saved, facts) : [] };
}

/** What was given, over what the resumed run had of the same algorithm; GRPO when neither names one. */
function algorithmOf(chosen: ChosenAlgorithm, saved: RunConfig | undefined): Algorithm {
  if (typeof chosen?.loss === "function") return chosenAlgorithm(chosen);
  const given = chosen as Record<string, unknown> | undefined;
  const before = saved?.algorithm;
  const name = given?.algorithm ?? before?.algorithm ?? "grpo";
  if (saved && name === before?.algorithm && !(algorithmNames as unknown[]).includes(name)) {
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

/** Whether a callback may raise the KL coefficient while the run goes on. */
export function mayAdjustKl({ callbacks = [] }: Pick<TrainParts, "callbacks">): boolean {
  return [callbacks].flat().some(({ adjustsKl }) => adjustsKl);
}

/** Whether a step that goes too far is taken back: where something acts on it, and the engine can give and take weights. */
export function mayUndo(parts: Pick<TrainParts, "callbacks" | "agent">): boolean {
  const { capabilities, model } = parts.agent.policy;
  return mayAdjustKl(parts) && capabilities.vectors && !model.stub;
}

/** The options of the resumed run under those that are given now. */
function withSaved(given: TrainingOptions, { profile: _, ...before }: TrainingConfig): TrainingOptions {
  return mergeOptions(given, before);
}

function describeHeldOut(heldOut: NonNullable<TrainParts["heldOut"]>): Record<string, unknown> {
  return heldOut instanceof Environment ? heldOut.describe() : { scenarios: describeList(heldOut) };
}
