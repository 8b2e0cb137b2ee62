/** A run as lines that stay, for logs and pipes. */
import { counted } from "../counted.ts";
import type { RunProgress } from "../run/callbacks.ts";
import type { RunEnd } from "../run/event.ts";
import { duration, number, percent, quantity } from "./format.ts";
import type { ViewState } from "./view-state.ts";
import { distance } from "./view-texts.ts";

export function stepLine(state: ViewState, nowMs: number): string {
  const { metrics, timing, step, totalSteps } = state.latest!;
  const total = Math.max(1, timing.rolloutMs + timing.updateMs);
  return [
    `step ${step}/${totalSteps}`,
    metrics.reward === undefined ? undefined : `reward ${number(metrics.reward)} ± ${number(metrics.rewardStd ?? 0)}`,
    metrics.reward !== undefined || metrics.loss === undefined ? undefined : `loss ${number(metrics.loss)}`,
    ...distance(metrics).map(([name, value]) => `${name} ${value}`),
    metrics.entropy === undefined ? undefined : `entropy ${number(metrics.entropy)}`,
    metrics.clipFraction === undefined ? undefined : `clip ${percent(metrics.clipFraction)}`,
    metrics.mismatch === undefined ? undefined : `mismatch ${number(metrics.mismatch)}`,
    `${Math.round(timing.tokensPerSecond)} tokens/s`,
    timing.rolloutMs === 0 ? undefined : `rollout ${percent(timing.rolloutMs / total)}`,
    timing.reused === undefined ? undefined : `reused ${percent(timing.reused)}`,
    state.conversations === 0 ? undefined : `failed ${state.failed.environment + state.failed.reward}`,
    `eta ${duration(state.etaMs(nowMs) ?? Number.NaN)}`,
  ]
    .filter((part) => part !== undefined)
    .join("  ");
}

/** What is being done, how far it is, and for how long. */
export function progressText(now: Omit<RunProgress, "totalSteps">, elapsedMs: number): string {
  return [
    `${now.step > 0 ? `step ${now.step}: ` : ""}${now.phase}`,
    now.of === undefined ? undefined : `${now.done} of ${now.of} conversations`,
    now.tokens ? `${quantity(now.tokens)} tokens` : undefined,
    duration(elapsedMs),
  ]
    .filter((part) => part !== undefined)
    .join("  ");
}

export function endLine({ status, steps, reason, weights }: RunEnd): string {
  return `${status} after ${counted(steps, "step")}${reason ? `: ${headOf(reason)}` : ""}${weights ? `. The weights are ${weights.why}` : ""}`;
}

/** Without the stack of a programming mistake: whoever ends the run prints that, once. */
export function headOf(reason: string): string {
  return reason.split("\n", 1)[0]!;
}
