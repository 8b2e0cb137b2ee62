import { z } from "zod";
import type { RewardResult } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import {
  computeParts,
  joinBreakdowns,
  joinMetadata,
  joinTurns,
  type OnFailure,
  onFailureSchema,
} from "./composite-reward.ts";
import { checkResult } from "./define-reward.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "./reward-function.ts";

/**
 * weighted-sum: Σ wᵢ sᵢ. min: the worst objective (weights play no part). product: Π sᵢ^wᵢ.
 * geometric: Π sᵢ^(wᵢ / Σ w), the weighted geometric mean: like product, but on the scale of the scores.
 */
export type Aggregation = "weighted-sum" | "min" | "product" | "geometric";

export interface Objective {
  name: string;
  reward: RewardFunction;
  /** Default 1. */
  weight?: number;
  /** The scores that count as 0 and as 1 when `normalize` is on. Default [0, 1]. */
  range?: readonly [number, number];
}

export interface MultiObjectiveOptions extends RewardOptions {
  objectives: readonly Objective[];
  /** Default "weighted-sum"; Python's "weighted_sum" works too. */
  aggregation?: Aggregation | "weighted_sum";
  /** Bring every score into 0…1 by its range and make the weights add up to 1. Default true. */
  normalize?: boolean;
  /** As in CompositeReward. Default "fail". */
  onFailure?: OnFailure;
}

const schema = z.strictObject({
  name: z.string().default("multiObjective"),
  weight: z.number().default(1),
  objectives: z
    .array(
      z.strictObject({
        name: z.string().min(1),
        reward: z.instanceof(RewardFunction),
        weight: z.number().min(0).default(1),
        range: z.tuple([z.number(), z.number()]).default([0, 1]),
      }),
    )
    .min(1),
  aggregation: z.enum(["weighted-sum", "weighted_sum", "min", "product", "geometric"]).default("weighted-sum"),
  normalize: z.boolean().default(true),
  onFailure: onFailureSchema,
});

type Settings = z.output<typeof schema>;

/** Several objectives in one score, by more than a sum. */
export class MultiObjectiveReward extends RewardFunction {
  readonly #settings: Settings;

  constructor(options: MultiObjectiveOptions) {
    const settings = parseOptions(schema, options, "MultiObjectiveReward");
    const { name, weight, objectives: _, ...rest } = settings;
    super({ name, weight }, rest);
    this.#settings = settings;
    for (const { name, range } of settings.objectives) {
      if (range[0] === range[1]) {
        throw new StatesetError("INVALID_OPTION", `The range of objective "${name}" is empty: ${range.join(" to ")}.`);
      }
    }
    if (settings.objectives.every(({ weight }) => weight === 0)) {
      throw new StatesetError("INVALID_OPTION", "All objectives of MultiObjectiveReward have weight 0.");
    }
  }

  override describe(): Record<string, unknown> {
    const parts = this.#settings.objectives.map(({ reward, ...rest }) => ({ ...reward.describe(), ...rest }));
    return { ...super.describe(), parts };
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    const { objectives, onFailure, normalize, aggregation } = this.#settings;
    const { results, failures, tell } = await computeParts(objectives, conversation, context, onFailure);
    const byName = new Map(objectives.map((objective) => [objective.name, objective]));
    const total = results.reduce((sum, { name }) => sum + byName.get(name)!.weight, 0);
    const scored = results.map(({ name, result }) => {
      const { weight, range } = byName.get(name)!;
      if (!normalize) return { name, weight, scale: 1, score: result.score };
      const scale = 1 / (range[1] - range[0]);
      return { name, weight: weight / total, scale, score: clamp((result.score - range[0]) * scale) };
    });
    const adds = aggregation === "weighted-sum" || aggregation === "weighted_sum";
    tell(adds ? scored.map(({ score, weight }) => score * weight) : undefined);
    return checkResult(this.name, conversation, {
      score: aggregate(scored, aggregation),
      breakdown: joinBreakdowns(results),
      ...joinTurns(results.map(({ result }, i) => ({ result, factor: turnFactor(scored, i, aggregation) }))),
      metadata: joinMetadata(results, failures),
    });
  }
}

function aggregate(
  parts: readonly { name: string; weight: number; score: number }[],
  aggregation: Settings["aggregation"],
): number {
  switch (aggregation) {
    case "min":
      return Math.min(...parts.map(({ score }) => score));
    case "product":
    case "geometric": {
      const negative = parts.find(({ score }) => score < 0);
      if (negative) {
        throw new StatesetError("REWARD_FAILED", `Objective "${negative.name}" scored ${negative.score}.`, {
          hint: `The aggregation "${aggregation}" needs scores of 0 or more: turn normalize on, with a range.`,
        });
      }
      const total = aggregation === "geometric" ? parts.reduce((sum, { weight }) => sum + weight, 0) : 1;
      return parts.reduce((product, { score, weight }) => product * score ** (weight / total), 1);
    }
    default:
      return parts.reduce((sum, { score, weight }) => sum + score * weight, 0);
  }
}

/**
 * What a single turn's reward of an objective counts, on the scale of the score: where that was earned, the rest falling on the end. They
 * are added up whatever the aggregation, since one turn is no score of its own; of "min" only the objective that decides has a say.
 */
function turnFactor(
  parts: readonly { weight: number; scale: number; score: number }[],
  index: number,
  aggregation: Settings["aggregation"],
): number {
  const { weight, scale } = parts[index]!;
  if (aggregation !== "min") return weight * scale;
  return parts.findIndex((part) => part.score === Math.min(...parts.map((one) => one.score))) === index ? scale : 0;
}

function clamp(x: number): number {
  return Math.min(1, Math.max(0, x));
}
