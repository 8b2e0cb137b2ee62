/** `--dry-run` of learning from data: everything resolved, with what it needs. One batch is scored, to know how long it takes. */
import { z } from "zod";
import { buildTokenTree, type TreeChain } from "../../conversation/token-tree.ts";
import { counted } from "../../counted.ts";
import { defaultTokenBudget } from "../../learning/optimiser.ts";
import type { MemoryPlan, Policy } from "../../policy/policy.ts";
import { findCheckpoint } from "../../run/checkpoint/store.ts";
import { type FitSettings, type fitShape, splitFitOptions } from "../../supervised/fit-options.ts";
import { bytes, duration, quantity } from "../../telemetry/format.ts";
import { changedSettings } from "../../telemetry/view-texts.ts";
import { type CliIo, colorsOf, printJson } from "../io.ts";
import { modelText } from "../model-label.ts";
import { storedBytes } from "../plan.ts";
import { memoryText, printPlanTable, refuseUnfit } from "../run/plan-table.ts";
import type { Settings } from "../settings.ts";
import type { Data, Learner } from "./learner.ts";
import { resolveSettings } from "./resolve-settings.ts";

export interface LearnPlan<E> {
  learner: Learner<E>;
  policy: Policy;
  data: Data<E>;
  settings: Settings;
  resumeFrom: string | undefined;
  json: boolean;
  io: CliIo;
}

export async function printLearnPlan<E>(plan: LearnPlan<E>): Promise<void> {
  const { learner, policy, data, resumeFrom, json, io } = plan;
  const settings = fitSettings(plan);
  const { units, what, tokens, dropped, truncated } = learner.encode(policy, data.examples, { ...settings });
  const steps = Math.ceil(units.length / settings.batchSize) * settings.epochs;
  const done = resumeFrom === undefined ? 0 : (findCheckpoint(resumeFrom, () => {})?.step ?? 0);
  const left = Math.max(0, steps - done);
  const stepMs = await measure(policy, units.slice(0, settings.batchSize).flat(), settings.tokenBudget);
  const time = { stepMs, totalMs: stepMs * left };
  const { tokenBudget, recompute } = settings;
  const memory = policy.plan({ tokenBudget, recompute, reference: learner.refers?.({ ...settings }) ?? false });
  const disk = diskOf(policy, settings, left, data.heldOut !== undefined);
  const { model } = policy;
  if (json) {
    const facts = { examples: units.length, heldOut: data.heldOut?.length ?? 0, tokens, dropped, truncated };
    const resumedAfter = resumeFrom === undefined ? null : done;
    printJson(io, {
      type: "plan",
      command: learner.command,
      model,
      settings,
      ...facts,
      steps,
      resumedAfter,
      memory,
      time,
      disk,
    });
    refuseUnfit(memory);
    return;
  }
  const { dim } = colorsOf(io);
  const lost = [dropped > 0 && `${dropped} cannot be used`, truncated > 0 && `${truncated} are cut`].filter(Boolean);
  const held = data.heldOut === undefined ? "none held out" : `${data.heldOut.length} held out`;
  const defaults: Settings = {
    ...z.object(learner.shape({ ...settings })).parse({}),
    tokenBudget: defaultTokenBudget(policy, recompute),
  };
  printPlanTable(
    {
      model: modelText(model),
      learner: `${learner.command}, seed ${settings.seed}`,
      data: `${units.length} ${what} (${quantity(tokens)} tokens to learn from), ${held}${lost.length > 0 ? `; ${lost.join(", ")}` : ""}`,
      steps: `${left} of ${settings.batchSize} ${what}, ${counted(settings.epochs, "epoch")}${done > 0 ? dim(`, after ${done} that are done`) : ""}`,
      settings: changedSettings({ settings: { ...settings }, defaults }).join(dim(" · ")),
      memory: memoryText(memory, io),
      disk: `about ${bytes(disk.total)} (${counted(disk.checkpoints, "checkpoint")} of ${bytes(disk.checkpoint)}, final ${bytes(disk.final)})`,
      time: `about ${duration(time.totalMs)}: ${(stepMs / 1000).toFixed(1)} s a step, measured on one batch`,
    },
    io,
  );
  refuseUnfit(memory satisfies MemoryPlan);
}

function fitSettings<E>({ learner, policy, settings, resumeFrom }: LearnPlan<E>): FitSettings {
  const resolved = resolveSettings(learner, settings, resumeFrom) as Parameters<typeof splitFitOptions>[0];
  const shape = learner.shape(resolved) as typeof fitShape;
  return splitFitOptions(resolved, shape, policy).settings;
}

/** A backward pass costs about two forward passes. The batch is cut at the budget, and counted as if it were whole. */
async function measure(policy: Policy, batch: readonly TreeChain[], tokenBudget: number): Promise<number> {
  const tokens = (chains: readonly TreeChain[]) => chains.reduce((sum, chain) => sum + chain.tokens.length, 0);
  let fits = 1;
  while (fits < batch.length && tokens(batch.slice(0, fits + 1)) <= tokenBudget) fits++;
  const part = batch.slice(0, fits);
  const startedAt = performance.now();
  (await policy.forward(buildTokenTree(part).tree, { grad: false })).release();
  return (3 * (performance.now() - startedAt) * tokens(batch)) / tokens(part);
}

function diskOf({ model }: Policy, { checkpoint: own, evaluateEvery }: FitSettings, steps: number, evaluates: boolean) {
  const { weights: final, moments } = storedBytes(model);
  const checkpoint = final + moments;
  const due = own.every > 0 ? Math.ceil(steps / own.every) : 1;
  const better = evaluates ? 1 + (evaluateEvery > 0 ? Math.ceil(steps / evaluateEvery) : 0) : 0;
  const checkpoints = Math.min(due + better, own.keep + (better > 0 ? 1 : 0));
  return { checkpoint, checkpoints, final, total: checkpoints * checkpoint + final };
}
