/** The sections of a configuration for the commands beside `train`: each is what its command would be told by flags. */
import { z } from "zod";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { type NeuralRewardTrainerOptions, rewardModelShape } from "../preference/neural-reward-trainer.ts";
import { type PreferenceOptions, preferenceShape } from "../preference/train-preference.ts";
import type { RunChoice } from "../run/options.ts";
import { type HarvestSettings, harvestShape } from "../supervised/best-of-n.ts";
import { type AgentOrPolicy, type FitOptions, fitShape } from "../supervised/fit-options.ts";

const nameShape = { name: z.string().min(1).optional().describe("The run's name; its folder is `runs/<name>`.") };

const sourceShape = {
  ...nameShape,
  data: z.string().min(1).optional().describe("The file that is learnt from, beside the configuration."),
  heldOut: z.string().min(1).optional().describe("A file of the same kind that is only measured on."),
  skipBad: z.boolean().optional().describe("Go on after lines that cannot be read, and say how many there were."),
};

/** What each learner takes beside its source: the settings of the library, by the same names. */
export const learnerShapes = {
  sft: {
    ...fitShape,
    minReward: z
      .number()
      .optional()
      .describe("Of a run's conversations: learn only from those with this reward or more."),
  },
  dpo: preferenceShape,
  rewardModel: rewardModelShape,
  bestOfN: { ...harvestShape, ...fitShape },
} as const;

export type SectionName = keyof typeof learnerShapes;
export const sectionNames = Object.keys(learnerShapes) as SectionName[];

const schemas = {
  sft: z.strictObject({ ...sourceShape, ...learnerShapes.sft }),
  dpo: z.strictObject({ ...sourceShape, ...learnerShapes.dpo }),
  rewardModel: z.strictObject({ ...sourceShape, ...learnerShapes.rewardModel }),
  bestOfN: z.strictObject({ ...nameShape, ...learnerShapes.bestOfN }),
  serve: z.strictObject({ redact: z.array(z.string().min(1)).optional() }),
} as const;

/** What is the run's and the agent's is said elsewhere. */
type Settings<Options> = Omit<
  Options,
  keyof RunChoice | keyof AgentOrPolicy | "examples" | "pairs" | "model" | "lora" | "threads"
>;

interface Named {
  /** The run's name; its folder is `runs/<name>`. */
  name?: string;
}

interface DataSource extends Named {
  /** The file that is learnt from, beside the configuration. */
  data?: string;
  /** A file of the same kind that is only measured on. */
  heldOut?: string;
  /** Go on after lines that cannot be read, and say how many there were. */
  skipBad?: boolean;
}

/** Of `stateset-agents sft`: chats to imitate, or a run whose conversations are. */
export interface SupervisedSection extends DataSource, Settings<FitOptions> {
  /** Of a run's conversations: learn only from those with this reward or more. */
  minReward?: number;
}
/** Of `stateset-agents dpo`: pairs of replies. */
export type PreferenceSection = DataSource & Omit<Settings<PreferenceOptions>, "heldOut">;
/** Of `stateset-agents reward-model`: pairs, or conversations labelled good or bad. */
export type RewardModelSection = DataSource & Omit<Settings<NeuralRewardTrainerOptions>, "heldOut">;
/** Of `stateset-agents best-of-n`, which plays the scenarios of the environment. */
export type BestOfNSection = Named & Omit<HarvestSettings, "signal"> & Settings<FitOptions>;

/** Of `stateset-agents serve`. */
export interface ServeSection {
  /** Regular expressions of what must never be in the log. */
  redact?: readonly string[];
}

const examples: Partial<Record<string, string>> = { bestOfN: "{ n: 16 }", serve: '{ redact: ["\\\\d{16}"] }' };

/** Refuses what a section may not hold, also while another command runs: a misspelt key would wait there unseen. */
export function checkSections(config: Readonly<Partial<Record<keyof typeof schemas, unknown>>>, where: string): void {
  for (const name of Object.keys(schemas) as (keyof typeof schemas)[]) {
    const section = config[name];
    if (section === undefined) continue;
    if (typeof section !== "object" || section === null) {
      throw new StatesetError("INVALID_OPTION", `"${name}" in ${where} is no group of settings.`, {
        hint: `Write ${name}: ${examples[name] ?? "{ data: <file> }"}.`,
      });
    }
    parseOptions(schemas[name], section, `${where}: ${name}`);
  }
}
