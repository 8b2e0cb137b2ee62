import { z } from "zod";
import type { RewardResult } from "../../conversation/trajectory.ts";
import type { Judge } from "../../endpoint/judge.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { createRandom, seedOf } from "../../random.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { type Brief, listPrompt, pairPrompt, scorePrompt } from "./prompt.ts";
import { readScore, readScores, readWinner, type Verdict } from "./read-answer.ts";

export interface JudgeRewardOptions extends RewardOptions {
  judge: Judge;
  /** What is good, in plain words. */
  rubric: string;
  /**
   * absolute: every conversation scored alone on `scale`.
   * pairwise: every two of a group compared, in both orders; the score is the share of comparisons won.
   * listwise: the whole group scored in one question (RULER style); the default, since only differences inside a group teach.
   * Evaluations always score each conversation alone: ranks inside a group say nothing of one policy against another.
   */
  mode?: "absolute" | "pairwise" | "listwise";
  /** Of absolute scores: the scale the judge is asked for; scores are mapped to 0…1. Default 1 to 10. */
  scale?: { min: number; max: number };
  /** Pairwise mode: how many others each conversation meets. Default: all. */
  opponents?: number;
}

const schema = z.strictObject({
  judge: z.custom<Judge>((v) => typeof (v as Judge | null)?.ask === "function", "expected a Judge from createJudge()"),
  rubric: z.string().min(1),
  mode: z.enum(["absolute", "pairwise", "listwise"]).default("listwise"),
  scale: z
    .strictObject({ min: z.number(), max: z.number() })
    .refine((s) => s.max > s.min, "max must be above min")
    .default({ min: 1, max: 10 }),
  opponents: z.int().positive().optional(),
  weight: z.number().optional(),
  name: z.string().min(1).default("judge"),
});

/** A reward given by an AI judge (RLAIF). A judge that gives no answer is an error of that reward, never a score. */
export function judgeReward(options: JudgeRewardOptions): JudgeReward {
  return new JudgeReward(options);
}

type Scored = { result: RewardResult } | { failed: unknown };

export class JudgeReward extends RewardFunction {
  readonly judge: Judge;
  readonly #o: z.output<typeof schema>;
  /** One comparison serves every member of a group. */
  readonly #groups = new WeakMap<readonly RewardInput[], Promise<Scored[]>>();

  constructor(options: JudgeRewardOptions) {
    const o = parseOptions(schema, options, "judgeReward()");
    const { name, weight, judge, ...settings } = o;
    super({ name, ...(weight === undefined ? {} : { weight }) }, { ...settings, judge: judge.id });
    this.judge = o.judge;
    this.#o = o;
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    if (this.#o.mode === "absolute" || context.evaluation) return this.#absolute(conversation, context);
    const group = context.group ?? [conversation];
    const index = group.indexOf(conversation);
    if (index < 0) {
      throw new StatesetError(
        "REWARD_FAILED",
        `The conversation to judge is not in the group given to "${this.name}".`,
        {
          hint: "Pass the group's own objects: compute(group[i], { group }).",
        },
      );
    }
    let scored = this.#groups.get(group);
    if (!scored) {
      scored = this.#o.mode === "pairwise" ? this.#pairwise(group, context) : this.#listwise(group, context);
      this.#groups.set(group, scored);
      // A failed or aborted comparison must not be remembered: a retry asks again.
      scored.then(
        (all) => all.some((s) => "failed" in s) && this.#groups.delete(group),
        () => this.#groups.delete(group),
      );
    }
    const own = (await scored)[index]!;
    if ("failed" in own) throw own.failed;
    return own.result;
  }

  async #absolute(conversation: RewardInput, { signal, untimed }: RewardContext): Promise<RewardResult> {
    const { scale } = this.#o;
    const { score, reason } = await this.judge.ask({
      messages: scorePrompt(this.#brief(conversation), conversation.turns, scale),
      read: (text) => readScore(text, scale),
      signal,
      untimed,
    });
    return this.#result((score - scale.min) / (scale.max - scale.min), { raw: score, reason });
  }

  async #listwise(group: readonly RewardInput[], { signal, untimed }: RewardContext): Promise<Scored[]> {
    // Shown in a shuffled order, so that what a judge thinks of first or last places averages out over groups.
    const seed = seedOf("listwise", ...group.map((c) => c.turns.map((t) => t.content).join("\n")));
    const order = createRandom(seed).shuffled(group.map((_, i) => i));
    const verdicts = await this.judge.ask({
      messages: listPrompt(
        this.#brief(group[0]!),
        order.map((i) => group[i]!.turns),
      ),
      read: (text) => readScores(text, group.length),
      signal,
      untimed,
    });
    const scored = new Array<Scored>(group.length);
    order.forEach((member, place) => {
      const { score, reason } = verdicts[place] as Verdict;
      scored[member] = { result: this.#result(score, { reason }) };
    });
    return scored;
  }

  async #pairwise(group: readonly RewardInput[], { signal, untimed }: RewardContext): Promise<Scored[]> {
    if (group.length < 2) {
      throw new StatesetError("JUDGE_FAILED", `The pairwise judge "${this.name}" was given one conversation alone.`, {
        hint: 'Give the others of its group in the context, or use mode "absolute".',
      });
    }
    const tally = group.map(() => ({ won: 0, compared: 0, failed: 0, error: undefined as unknown }));
    await Promise.all(
      pairs(group.length, this.#o.opponents ?? group.length - 1).flatMap(([a, b]) =>
        [
          [a, b],
          [b, a],
        ].map(async ([first, second]) => {
          try {
            const winner = await this.judge.ask({
              messages: pairPrompt(this.#brief(group[first!]!), group[first!]!.turns, group[second!]!.turns),
              read: readWinner,
              signal,
              untimed,
            });
            const share = winner === "first" ? 1 : winner === "tie" ? 0.5 : 0;
            tally[first!]!.won += share;
            tally[second!]!.won += 1 - share;
            tally[first!]!.compared++;
            tally[second!]!.compared++;
          } catch (thrown) {
            if (signal?.aborted) throw thrown;
            for (const member of [first!, second!]) {
              tally[member]!.failed++;
              tally[member]!.error = thrown;
            }
          }
        }),
      ),
    );
    return tally.map(({ won, compared, failed, error }) =>
      // A score from too few comparisons is noise; more than half must have worked.
      compared > failed
        ? { result: this.#result(won / compared, { comparisons: compared, failedComparisons: failed }) }
        : { failed: error },
    );
  }

  #brief({ scenario }: RewardInput): Brief {
    return { rubric: this.#o.rubric, goal: scenario?.goal, expected: scenario?.expected };
  }

  #result(score: number, metadata: Record<string, unknown>): RewardResult {
    return { score, breakdown: { [this.name]: score }, metadata: { judge: this.judge.id, ...metadata } };
  }
}

/** Who meets whom: all pairs, or each member its nearest neighbours on a ring, so that everybody meets about as many. */
function pairs(count: number, opponents: number): [number, number][] {
  const list: [number, number][] = [];
  const reach = opponents >= count - 1 ? count - 1 : Math.max(1, Math.ceil(opponents / 2));
  const ring = opponents < count - 1;
  for (let a = 0; a < count; a++) {
    for (let step = 1; step <= reach; step++) {
      const b = a + step;
      if (ring) list.push([a, b % count]);
      else if (b < count) list.push([a, b]);
    }
  }
  return list;
}
