import { z } from "zod";
import { StatesetError } from "../error.ts";
import { earlyStoppingSchema } from "../evaluation/early-stopping.ts";
import { defaultSamples } from "../evaluation/evaluate.ts";
import { defaultTokenBudget, learningRateFor, scheduleShape } from "../learning/optimiser.ts";
import { klShape, learnShape } from "../learning/settings.ts";
import { mergeDefined, parseOptions } from "../options.ts";
import type { ModelInfo, Trainer } from "../policy/policy.ts";
import { rolloutShape } from "../rollout/settings.ts";
import { checkpointSchema, trajectoriesSchema } from "../run/options.ts";
import { defaultProfile, type ProfileName, profileNames, profiles } from "./profiles.ts";
import { samplerSchema } from "./scenario-sampler.ts";

const count = z.int().min(1);

/** All conversations of a step are in memory together, some kilobytes each. */
const mostPerStep = 1_000_000;

/** Everything a run can be told. One schema validates, types and documents; model settings (LoRA, threads, …) belong to the agent. */
export const trainingConfigSchema = z.strictObject({
  steps: count.default(100).describe("Rounds of sampling conversations and learning from them."),
  episodes: count
    .optional()
    .describe(
      "Conversations in all, instead of `steps`: steps = ceil(episodes / (groupsPerStep × accumulation × groupSize)).",
    ),
  groupsPerStep: count.default(4).describe("Scenarios per step."),
  accumulation: count
    .default(1)
    .describe(
      "So many times `groupsPerStep` scenarios are sampled, together, before the policy learns from all of them.",
    ),
  groupSize: count
    .default(8)
    .describe(
      "Conversations sampled of each scenario. Left out, some algorithms take their own (GSPO: 4). 1 is for those that compare with a value head or the whole batch.",
    ),
  ...learnShape,
  ...scheduleShape,
  kl: z
    .strictObject({
      ...klShape,
      adapt: z
        .strictObject({
          target: z.number().positive().describe("The KL to the reference that is aimed at, in nats a token."),
          horizon: z
            .number()
            .positive()
            .default(10_000)
            .describe("Conversations over which the coefficient changes by a fifth of itself at most."),
        })
        .optional()
        .describe(
          "Lets the coefficient follow the KL: after each step it is multiplied by 1 + clip(kl / target − 1, ±0.2) · min(1, conversations / horizon). Left out: it stays.",
        ),
      renewEvery: z
        .int()
        .min(0)
        .default(0)
        .describe("Steps after which the reference becomes the policy as it is then; 0: never."),
      reference: z
        .enum(["start", "base"])
        .default("start")
        .describe(
          "What it is kept near: the weights (under LoRA the adapter) the run starts from, or the model without an adapter, as it was opened.",
        ),
    })
    .refine(({ adapt, coefficient }) => adapt === undefined || coefficient > 0, {
      path: ["adapt"],
      message: "multiplies the coefficient, which must start above 0",
    })
    .prefault({})
    .describe(
      "Keeps the policy near a reference, beside any KL term the algorithm itself has (which measures against the same one).",
    ),

  ...rolloutShape,
  constrain: z
    .boolean()
    .default(false)
    .describe(
      "Hold calls of tools to their schemas while they are sampled, also where the agent is not told to. Off by default, whatever the agent has: it would learn from what it was kept from writing. Where it is on, tokens with one choice left do not learn; `removedMass` says how much was kept away.",
    ),
  recall: z
    .boolean()
    .default(true)
    .describe(
      "When a scenario's group is all alike below what the scenario once reached, its best conversation joins the group, and the scenario is drawn more often. Before the first step four conversations of each scenario (one, of a model of 100M parameters and more) are held, where that is less than a tenth of the run's. For algorithms that compare the conversations of a group.",
    ),

  sampler: samplerSchema,

  checkpoint: checkpointSchema(25),
  restarts: z
    .int()
    .min(0)
    .default(3)
    .describe(
      "How often a run whose PyTorch worker is lost starts another one and goes on from its last checkpoint, in the same process. Without a checkpoint it begins again, unless the policy had learnt before the run: then it fails. Other errors are never tried again.",
    ),
  evaluation: z
    .strictObject({
      every: z
        .int()
        .min(0)
        .default(10)
        .describe("Steps between evaluations on the held-out scenarios; 0: never in between."),
      samples: count
        .optional()
        .describe(
          "Conversations per held-out scenario; at temperature 0 it is 1. Left out: chosen by the model's size, 4 below 100M parameters and 1 from there on.",
        ),
      temperature: z.number().min(0).optional().describe("Of evaluations. Left out: that of training. 0 is greedy."),
      selectionShare: z
        .number()
        .gt(0)
        .lt(1)
        .default(0.5)
        .describe("Share of the held-out scenarios that selects the best checkpoint; the rest is only for the report."),
      restoreBest: z
        .boolean()
        .default(true)
        .describe("End with the weights of the best evaluation instead of the last ones; needs a run folder."),
    })
    .prefault({}),
  earlyStopping: earlyStoppingSchema
    .optional()
    .describe("Stop when evaluations on the held-out scenarios no longer improve; needs them. Left out: never."),
  trajectories: trajectoriesSchema({
    every: 10,
    perStep: 2,
    what: "Groups written each time; beside them, up to as many conversations that nothing was learnt from.",
  }),
});

/** What a user writes: every part may be left out. */
export type TrainingOptions = z.input<typeof trainingConfigSchema>;
type Parsed = z.output<typeof trainingConfigSchema>;
/** The resolved configuration of a run: every number is there. Written to config.json. */
export interface TrainingConfig
  extends Omit<Parsed, "episodes" | "learningRate" | "valueLearningRate" | "tokenBudget" | "evaluation"> {
  evaluation: Parsed["evaluation"] & { samples: number };
  tokenBudget: number;
  learningRate: number;
  valueLearningRate: number;
  profile: ProfileName;
}

export interface ResolveContext {
  profile?: ProfileName;
  /** Below the profile: what the algorithm is usually run with. */
  defaults?: TrainingOptions;
  /** Chooses the learning rate and the size of evaluations when none is given. */
  model?: Pick<ModelInfo, "parameters" | "lora">;
  /** Chooses the token budget when none is given. */
  policy?: Pick<Trainer, "plan">;
}

/** Fills in what the options leave open from the profile, then from the defaults. Unknown keys are named, the nearest suggested. */
export function resolveConfig(options: TrainingOptions = {}, context: ResolveContext = {}): TrainingConfig {
  const profile = context.profile ?? defaultProfile;
  if (!Object.hasOwn(profiles, profile)) {
    throw new StatesetError("INVALID_OPTION", `Unknown profile "${profile}".`, {
      hint: `Valid: ${profileNames.join(", ")}.`,
    });
  }
  const preset = profiles[profile];
  const { episodes, learningRate, valueLearningRate, tokenBudget, ...config } = parseOptions(
    trainingConfigSchema,
    mergeOptions(mergeOptions(options, preset.options), context.defaults ?? {}),
    "train()",
  );
  if (episodes !== undefined && options.steps !== undefined) {
    throw new StatesetError("INVALID_OPTION", "Both `steps` and `episodes` are given in train().", {
      hint: "Give one of them.",
    });
  }
  const perStep = config.groupsPerStep * config.accumulation * config.groupSize;
  if (perStep > mostPerStep) {
    throw new StatesetError(
      "INVALID_OPTION",
      `A step of train() would hold ${perStep} conversations (groupsPerStep × accumulation × groupSize); at most ${mostPerStep} are kept at a time.`,
      { hint: "Make a step smaller and take more steps." },
    );
  }
  const { samples = defaultSamples(context.model), ...evaluation } = config.evaluation;
  const rate = learningRate ?? learningRateFor(context.model) * preset.learningRateScale;
  return {
    ...config,
    steps: episodes === undefined ? config.steps : Math.ceil(episodes / perStep),
    // Last, given or not: a run that goes on writes the same config.json.
    evaluation: { ...evaluation, samples },
    tokenBudget: tokenBudget ?? defaultTokenBudget(context.policy, config.recompute),
    learningRate: rate,
    valueLearningRate: valueLearningRate ?? rate,
    profile,
  };
}

/** The user's options over the profile's, two levels deep. */
export function mergeOptions(options: TrainingOptions, preset: TrainingOptions): TrainingOptions {
  const merged = mergeDefined(options, preset);
  if (options.episodes !== undefined) delete merged.steps;
  return merged as TrainingOptions;
}
