/** The four commands, each with what it reads. */
import { existsSync } from "node:fs";
import type { ReadOptions } from "../../conversation/read-entries.ts";
import { StatesetError } from "../../error.ts";
import { loadPreferencePairs } from "../../preference/pair.ts";
import type { Scene } from "../../project/build-project.ts";
import type { SectionName } from "../../project/sections.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { type HarvestSettings, harvestShape } from "../../supervised/best-of-n.ts";
import { fitShape } from "../../supervised/fit-options.ts";
import { number } from "../../telemetry/format.ts";
import { type CliIo, printJson } from "../io.ts";
import { readingOf } from "../run/open-project.ts";
import { commandLine, shown } from "../run/place.ts";
import type { Settings } from "../settings.ts";
import { readExamples, readRewardExamples, type Sources, sourcesOf } from "./data.ts";
import type { LearnFlags } from "./flags.ts";
import { type HarvestRound, harvest, harvested, harvestFolder } from "./harvest.ts";
import { bestOfN, type Data, dpo, rewardModel, sft } from "./learner.ts";
import { printHarvestPlan } from "./print-harvest-plan.ts";
import { type LearnJob, runLearn } from "./run-learn.ts";

export function runSft(flags: LearnFlags, io: CliIo): Promise<void> {
  const read = async (job: LearnJob) => {
    const { data, heldOut, reading } = sources(job, "sft");
    // A choice of what to learn from, not a setting of the learner's.
    const { minReward } = job.settings as { minReward?: number };
    delete job.settings.minReward;
    return together(
      await readExamples(data, minReward, reading),
      heldOut && (await readExamples(heldOut, undefined, reading)),
    );
  };
  return runLearn({ learner: sft, read }, flags, io);
}

export function runDpo(flags: LearnFlags, io: CliIo): Promise<void> {
  const read = async (job: LearnJob) => {
    const { data, heldOut, reading } = sources(job, "dpo");
    return together(await loadPreferencePairs(data, reading), heldOut && (await loadPreferencePairs(heldOut, reading)));
  };
  return runLearn({ learner: dpo, read }, flags, io);
}

export function runRewardModel(flags: LearnFlags, io: CliIo): Promise<void> {
  const read = async (job: LearnJob) => {
    const { data, heldOut, reading } = sources(job, "rewardModel");
    return together(await readRewardExamples(data, reading), heldOut && (await readRewardExamples(heldOut, reading)));
  };
  return runLearn({ learner: rewardModel, read }, flags, io);
}

export function runBestOfN(flags: LearnFlags, io: CliIo): Promise<void> {
  return runLearn(
    {
      learner: bestOfN,
      plays: true,
      async read(job, within) {
        const { dir, agent, signal, view } = within!;
        const settings = splitSettings(job);
        if (job.resumeFrom === undefined) {
          if (flags.resume === undefined) refuseOther(dir, job);
          const scene = job.project as Scene;
          const onRound = (round: HarvestRound) =>
            flags.json ? printJson(io, { type: "harvest", ...round }) : view.note(roundText(round));
          if (!(await harvest({ agent, scene, settings, dir, signal, onRound }))) return undefined;
        }
        return { examples: harvested(job.resumeFrom === undefined ? dir : runDirOf(job.resumeFrom)) };
      },
      printPlan: (job) => printHarvestPlan(job, splitSettings(job)),
    },
    flags,
    io,
  );
}

function sources(
  { flags, project, io }: LearnJob,
  section: Exclude<SectionName, "bestOfN">,
): Sources & { reading: ReadOptions } {
  const command = section === "rewardModel" ? "reward-model" : section;
  const own = project.config[section];
  const reading = readingOf({ ...flags, skipBad: flags.skipBad ?? own?.skipBad }, io);
  return { ...sourcesOf(command, flags, own, project.dir, io), reading };
}

function together<E>(examples: readonly E[], heldOut: readonly E[] | "" | undefined): Data<E> {
  return { examples, ...(heldOut && { heldOut }) };
}

/** Takes the settings of the harvest out of the job's, which are then those of learning from it. */
function splitSettings({ settings, flags, resumeFrom }: LearnJob): HarvestSettings {
  const given = (["n", "keep", "minReward"] as const).filter((name) => flags[name] !== undefined);
  if (resumeFrom !== undefined && given.length > 0) {
    throw new StatesetError(
      "INVALID_OPTION",
      "A run that goes on has been sampled: how many and which stay cannot change.",
      {
        hint: "Leave --n, --keep and --min-reward out, or start a new run.",
      },
    );
  }
  const own: Settings = {};
  for (const key of Object.keys(harvestShape)) {
    if (settings[key] === undefined) continue;
    own[key] = settings[key];
    if (!(key in fitShape)) delete settings[key];
  }
  return own;
}

function refuseOther(dir: string, { io }: LearnJob): void {
  if (!existsSync(harvestFolder(dir))) return;
  throw new StatesetError("INVALID_OPTION", `${shown(dir, io)} holds a harvest that was stopped.`, {
    hint: `Give another --name, or go on with it: ${commandLine(["best-of-n", "--resume", shown(dir, io)])}`,
  });
}

function roundText({ scenarios, of, kept, sampled, sampledReward, keptReward }: HarvestRound): string {
  const best = keptReward === null ? "" : `, of those kept ${number(keptReward)}`;
  return `sampled ${scenarios}/${of} scenarios  kept ${kept} of ${sampled}  reward ${number(sampledReward)}${best}`;
}
