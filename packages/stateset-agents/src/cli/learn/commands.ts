/** The four commands, each with what it reads. */
import type { ReadOptions } from "../../conversation/read-entries.ts";
import { type LabelledCompletion, loadLabelledCompletions } from "../../preference/labelled.ts";
import { loadPreferencePairs, type PreferencePair } from "../../preference/pair.ts";
import type { Scene } from "../../project/build-project.ts";
import type { SectionName } from "../../project/sections.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { type HarvestSettings, harvestShape } from "../../supervised/best-of-n.ts";
import { fitShape } from "../../supervised/fit-options.ts";
import { number } from "../../telemetry/format.ts";
import { type CliIo, printJson } from "../io.ts";
import { readingOf } from "../run/open-project.ts";
import type { Settings } from "../settings.ts";
import { readExamples, readRewardExamples, type Sources, sourcesOf } from "./data.ts";
import type { LearnFlags } from "./flags.ts";
import { type HarvestRound, harvest, harvested } from "./harvest.ts";
import { bestOfN, type Data, dpo, rewardModel, sft } from "./learner.ts";
import { printHarvestPlan } from "./print-harvest-plan.ts";
import { resolveSettings } from "./resolve-settings.ts";
import { type LearnJob, runLearn } from "./run-learn.ts";

export function runSft(flags: LearnFlags, io: CliIo): Promise<void> {
  const read = async (job: LearnJob) => {
    const { data, heldOut, reading } = sources(job, "sft");
    // A choice of what to learn from, not a setting of the learner's: a run that goes on does not know it.
    const { minReward = job.project.config.sft?.minReward } = job.settings as { minReward?: number };
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
    const { loss } = resolveSettings(dpo, job.settings, job.resumeFrom);
    const load: (path: string, reading: ReadOptions) => Promise<readonly (PreferencePair | LabelledCompletion)[]> =
      loss === "kto" ? loadLabelledCompletions : loadPreferencePairs;
    return together(await load(data, reading), heldOut && (await load(heldOut, reading)));
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
        const settings = splitSettings(job);
        if (job.resumeFrom !== undefined) return { examples: harvested(runDirOf(job.resumeFrom)) };
        const { dir, agent, signal, view } = within!;
        const scene = job.project as Scene;
        const onRound = (round: HarvestRound) =>
          flags.json ? printJson(io, { type: "harvest", ...round }) : view.note(roundText(round));
        if (!(await harvest({ agent, scene, settings, dir, signal, onRound }))) return undefined;
        return { examples: harvested(dir) };
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
function splitSettings({ settings }: LearnJob): HarvestSettings {
  const own: Settings = {};
  for (const key of Object.keys(harvestShape)) {
    if (settings[key] === undefined) continue;
    own[key] = settings[key];
    if (!(key in fitShape)) delete settings[key];
  }
  return own;
}

function roundText({ scenarios, of, kept, sampled, sampledReward, keptReward }: HarvestRound): string {
  const best = keptReward === null ? "" : `, of those kept ${number(keptReward)}`;
  return `sampled ${scenarios}/${of} scenarios  kept ${kept} of ${sampled}  reward ${number(sampledReward)}${best}`;
}
