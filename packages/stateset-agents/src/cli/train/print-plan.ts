import { counted } from "../../counted.ts";
import { Environment } from "../../environment/environment.ts";
import { wantsReference } from "../../learning/learner.ts";
import { closeProject, type Project } from "../../project/build-project.ts";
import { findCheckpoint } from "../../run/checkpoint/store.ts";
import { bytes, duration, percent } from "../../telemetry/format.ts";
import { changedSettings } from "../../telemetry/view-texts.ts";
import type { TrainingCallbacks } from "../../training/callbacks.ts";
import { defaultsOf } from "../../training/defaults.ts";
import { firstLookSize } from "../../training/first-look.ts";
import type { ProfileName } from "../../training/profiles.ts";
import { willRecall } from "../../training/recall.ts";
import { mayAdjustKl, mayUndo, resolveRun } from "../../training/resolve-run.ts";
import type { TrainOptions } from "../../training/train-options.ts";
import { type CliIo, colorsOf, printJson } from "../io.ts";
import { modelText } from "../model-label.ts";
import { type DiskPlan, planDisk, planTime, type TimePlan } from "../plan.ts";
import { memoryText, printPlanTable, refuseUnfit } from "../run/plan-table.ts";

/** `train --dry-run`: everything resolved, with what it needs. Plays one group, so that environment and reward are tried as well. */
export async function printPlan(options: {
  project: Project;
  settings: Record<string, unknown>;
  profile: ProfileName | undefined;
  resumeFrom: string | undefined;
  /** Those that decide about settings: one that acts on the KL has a reference kept and another estimator. */
  callbacks: TrainingCallbacks[];
  json: boolean;
  io: CliIo;
}): Promise<void> {
  const { project, settings, profile, resumeFrom, callbacks, json, io } = options;
  const { agent, environment, reward, heldOut } = project;
  try {
    const { algorithm, config } = await resolveRun({
      ...settings,
      agent,
      environment,
      profile,
      resumeFrom,
      callbacks,
    } as TrainOptions);
    const { model } = agent.policy;
    const done = resumeFrom === undefined ? 0 : (findCheckpoint(resumeFrom, () => {})?.step ?? 0);
    const steps = Math.max(0, config.steps - done);
    const { tokenBudget, recompute } = config;
    const reference = wantsReference(algorithm, config.kl.coefficient) || mayAdjustKl({ callbacks });
    const left = { ...config, steps };
    const played = model.stub ? undefined : await planTime(project, left);
    // A run's own reference is what the scorer needs until it is renewed, or made anew of a checkpoint.
    const shared = reference && config.kl.renewEvery === 0 && done === 0;
    const scorer = played?.asksScores === true && !shared;
    const memory =
      played && agent.policy.plan({ tokenBudget, recompute, reference, scorer, undo: mayUndo({ agent, callbacks }) });
    const values = algorithm.needs.values === true;
    const heldOutCount =
      heldOut === undefined ? 0 : (heldOut instanceof Environment ? heldOut.scenarios : heldOut).length;
    const disk = played && planDisk(config, { model, ...played, reference, values, heldOut: heldOutCount });
    const conversations = steps * config.groupsPerStep * config.accumulation * config.groupSize;
    const looks = done === 0 && willRecall(config, algorithm) && !model.stub;
    const scenarios = environment.scenarios.length;
    const firstLook = looks ? scenarios * firstLookSize(config, scenarios, model) : 0;
    if (json) {
      const facts = {
        scenarios: environment.scenarios.length,
        heldOut: heldOutCount,
        reward: reward?.name ?? null,
        resumedAfter: resumeFrom === undefined ? null : done,
        conversations,
        firstLook,
      };
      printJson(io, {
        type: "plan",
        model,
        algorithm: algorithm.options,
        config,
        ...facts,
        memory: memory ?? null,
        time: played?.time ?? null,
        disk: disk ?? null,
      });
      refuseUnfit(memory);
      return;
    }
    const { dim } = colorsOf(io);
    const defaults = defaultsOf(algorithm.name, { model: agent.policy.model, policy: agent.policy, recompute });
    const settled = { ...config, ...algorithm.options, algorithm: algorithm.name };
    printPlanTable(
      {
        model: modelText(model),
        algorithm: `${algorithm.name}, ${config.profile} profile, seed ${config.seed}`,
        scenarios: `${environment.scenarios.length} to train on, ${heldOutCount} held out`,
        reward: reward?.name ?? "the environment's own",
        steps: `${steps} × ${config.groupsPerStep * config.accumulation} groups × ${config.groupSize} = ${conversations.toLocaleString("en-US")} conversations${firstLook > 0 ? `, and ${firstLook} to begin with` : ""}${done > 0 ? dim(`, after ${done} that are done`) : ""}`,
        settings: changedSettings({ settings: settled, defaults }).join(dim(" · ")),
        memory: memory && memoryText(memory, io),
        disk: disk && diskText(disk),
        time: played && timeText(played.time),
      },
      io,
    );
    refuseUnfit(memory);
  } finally {
    await closeProject(project);
  }
}

function diskText({ checkpoint, checkpoints, final, trajectories, total }: DiskPlan): string {
  const saved = `${counted(checkpoints, "checkpoint")} of ${bytes(checkpoint)}`;
  return `about ${bytes(total)} (${saved}, final ${bytes(final)}, trajectories ${bytes(trajectories)})`;
}

function timeText(plan: TimePlan): string {
  const step = plan.rolloutMsPerStep + plan.updateMsPerStep;
  return `about ${duration(plan.totalMs)}: ${(step / 1000).toFixed(1)} s a step, rollout ${percent(plan.rolloutMsPerStep / step)}, measured on one group at ${Math.round(plan.tokensPerSecond)} tokens/s`;
}
