/** What the held-out scenarios say before, during and after a run, and which weights it ends with. */

import { join } from "node:path";
import { counted } from "../counted.ts";
import { evaluationMetrics } from "../run/evaluation-metrics.ts";
import type { FinalWeights, RewardEvaluation } from "../run/event.ts";
import { finiteMetrics, type Metrics } from "../run/metrics.ts";
import { reportEvaluation } from "./failures.ts";
import type { Loop, LoopState } from "./loop.ts";
import { saveLoop } from "./saved-loop.ts";

/** Whether an evaluation is the best so far; of two equal ones the earlier is. */
function noteBest(state: LoopState, { step, reward: { mean: score, count } }: RewardEvaluation): boolean {
  if (!Number.isFinite(score) || (state.best !== null && score <= state.best.score)) return false;
  state.best = { step, score, scenarios: count };
  return true;
}

/** The policy as it is given is measured like every later one, and is the first candidate for the best. */
export async function evaluateBefore(loop: Loop): Promise<void> {
  const { heldOut, run, state, config } = loop;
  if (!heldOut || loop.before) return;
  const sets = config.evaluation.every > 0 ? (["report", "selection"] as const) : (["report"] as const);
  // At once, since the engine takes more conversations for little more time. Nothing is said before both are done: a run that is
  // stopped in between begins with them again.
  const measured = await Promise.allSettled(
    sets.map((set) => heldOut.evaluate(0, set, state.lowestReward, run.signal)),
  );
  const [report, selection] = measured.map((one) => {
    if (one.status === "rejected") throw one.reason;
    return one.value;
  }) as [RewardEvaluation, RewardEvaluation?];
  await reportEvaluation(loop, report);
  if (selection) await reportEvaluation(loop, selection);
  run.record(finiteMetrics(0, evaluationMetrics(report), selection ? evaluationMetrics(selection) : {}));
  loop.before = report;
  if (!selection || !noteBest(state, selection)) return;
  if (config.evaluation.restoreBest) await saveLoop(loop, { best: true, planned: true });
}

export async function evaluateAfter(loop: Loop, weights: FinalWeights): Promise<RewardEvaluation | undefined> {
  const { heldOut, run, state } = loop;
  const measured = await heldOut?.evaluate(run.step, "report", state.lowestReward, run.signal);
  if (!measured) return undefined;
  const after = weights.step === run.step ? measured : { ...measured, weightsOf: weights.step };
  await reportEvaluation(loop, after);
  return after;
}

/** Goes back to the best weights where they are not the last ones and were kept. */
export async function chooseWeights({ config, state: { best }, learner, run }: Loop): Promise<FinalWeights> {
  const { step } = run;
  if (best === null) return { step, why: "the last step's: nothing was held out to choose by" };
  const scenarios = best.scenarios;
  const on = `on ${counted(scenarios, "selection scenario")} (${best.score.toFixed(3)})`;
  if (best.step >= step) return { step, scenarios, why: `the last step's, which did best ${on}` };
  const bestWas = `${best.step === 0 ? "the untrained policy" : `step ${best.step}`} did best ${on}`;
  if (!config.evaluation.restoreBest) return { step, why: `the last step's, since restoreBest is off; ${bestWas}` };
  const kept = run.store?.best();
  if (kept === undefined) return { step, why: `the last step's, since no others were kept; ${bestWas}` };
  await learner.policy.restore(join(kept, "policy"));
  const why =
    best.step === 0
      ? `those the run began with: no step did better ${on}`
      : `step ${best.step}'s, which did best ${on}`;
  return { step: best.step, scenarios, why };
}

/** The evaluation of a step, where one is due: it may make the step the best so far, or end the run. */
export async function evaluateStep(loop: Loop, step: number) {
  const { heldOut, config, state, run, earlyStopping } = loop;
  const due = config.evaluation.every > 0 && (step % config.evaluation.every === 0 || step === config.steps);
  if (!heldOut || !due) return { evaluation: {} as Metrics, improved: false };
  const result = await heldOut.evaluate(step, "selection", state.lowestReward, run.signal);
  await reportEvaluation(loop, result);
  const improved = noteBest(state, result);
  const decision = earlyStopping?.observe(step, result.reward.mean);
  if (decision?.stop) run.stop(decision.reason!);
  return { evaluation: evaluationMetrics(result), improved };
}
