/** Time to reward in words and tables. */
import { type Roofline, rooflineText } from "../machine.ts";
import type { MachineRecord, Records } from "../results.ts";
import { median, mediansOf, type PeerSetting, ratiosOf, type Side, type Training } from "./measure.ts";

/** What one run of the benchmark found, in results/reward.json by kind of machine. */
export interface RewardRecord extends MachineRecord {
  roofline?: Roofline;
  /** Mean of the last minute, before and after: what else the machine had to do. */
  load: { before: number; after: number };
  seeds: number[];
  /** With every core first, which is the default. */
  ours: Side[];
  /** The same with `gradients: "bf16"`, where that brings speed. */
  oursBf16?: Side[];
  trl: Side[];
  /** Processor seconds of a few steps under each setting tried; the trainings have the one with the fewest. */
  tried: { setting: PeerSetting; cpuSecondsAStep: number }[];
}

const seconds = (value: number) => value.toFixed(value < 10 ? 2 : 1);
const settingText = ({ dtype, batch }: PeerSetting) => `${dtype}, ${batch} conversations a pass`;

export function trainingLine(who: string, seed: number, { rewards, cpuSeconds, seconds: wall }: Training): string {
  return `${who}, seed ${seed}: ${rewards.length} steps, ${seconds(cpuSeconds)} CPU s, ${seconds(wall)} s by the clock`;
}

/** "15×", "9.4×" */
export const times = (ratio: number) => `${ratio.toFixed(ratio < 10 ? 1 : 0)}×`;

export function headline({ ours, trl }: Pick<RewardRecord, "ours" | "trl">): string {
  const ratios = ratiosOf(ours, trl);
  return `TRL needs ${times(ratios.cpuSeconds)} the CPU seconds, ${times(ratios.seconds)} the time by the clock, ${times(ratios.cpuSecondsAStep)} the CPU seconds a step and ${times(ratios.steps)} the steps`;
}

/** The README with the figure of this record in its sentence on speed. */
export function cite(readme: string, { ours, trl }: Pick<RewardRecord, "ours" | "trl">): string {
  const sentence = /(`GRPOTrainer` needs )\S+(× the CPU seconds)/;
  if (!sentence.test(readme)) throw new Error("The README has no sentence on TRL's CPU seconds; adapt cite().");
  return readme.replace(sentence, `$1${times(ratiosOf(ours, trl).cpuSeconds).slice(0, -1)}$2`);
}

/** What rounded gradients bring, where they were measured. */
function bf16Text({ oursBf16, trl }: RewardRecord): string {
  if (!oursBf16 || trl.length === 0) return "";
  const { cpuSeconds, seconds, steps } = ratiosOf(oursBf16, trl);
  return ` With \`gradients: "bf16"\` it needs ${times(cpuSeconds)} ours in CPU seconds, ${times(seconds)} by the clock and ${times(steps)} the steps.`;
}

function sideRow(who: string, { threads, trainings }: Side): string {
  const { steps, cpuSeconds, seconds: wall, cpuSecondsAStep, totalCpuSeconds } = mediansOf(trainings);
  const each = (of: (training: Training) => string) => trainings.map(of).join(", ");
  return `| ${[
    who,
    threads,
    `${steps} (${each(({ rewards }) => String(rewards.length))})`,
    `${seconds(cpuSeconds)} (${each((one) => seconds(one.cpuSeconds))})`,
    seconds(wall),
    seconds(cpuSecondsAStep),
    seconds(totalCpuSeconds),
  ].join(" | ")} |`;
}

function curveRows(who: string, { trainings }: Side, seeds: readonly number[]): string[] {
  return trainings.map(
    ({ rewards, meanTokens }, i) =>
      `| ${who} | ${seeds[i]} | ${meanTokens.toFixed(1)} | ${rewards.map((reward) => reward.toFixed(2)).join(" ")} |`,
  );
}

/** How many times ours could be ahead if all it did were multiply-adds, at the rate of one thread that does nothing else. */
function boundText({ ours, trl, roofline }: RewardRecord): string {
  const work = ours[0]!.trainings.flatMap(({ multiplyAdds }) => multiplyAdds ?? []);
  if (work.length === 0 || !roofline || trl.length === 0) return "";
  const least = median(work) / 1e9 / roofline.gigaMultiplyAdds.one;
  const { cpuSeconds } = mediansOf(ours.find(({ threads }) => threads === 1)?.trainings ?? ours[0]!.trainings);
  const ratio = ratiosOf(ours, trl).cpuSeconds * (cpuSeconds / least);
  return `

The arithmetic: sampling, the fluency check and learning (forward once, backward twice) multiply every distinct token with every weight five times in all, four where learning goes on from what sampling computed. That is ${(median(work) / 1e9).toFixed(0)} billion multiply-adds a training,
${seconds(least)} CPU s at the rate that one thread reaches with everything in registers; ours takes ${seconds(cpuSeconds)} on one thread. With nothing but five such products, at that rate, TRL would need ${times(ratio)}.`;
}

function section(kind: string, record: RewardRecord): string {
  const { machine, date, roofline, load, seeds, ours, oursBf16 = [], trl, tried } = record;
  const compared = trl.length > 0;
  const rounded = oursBf16.map((side) => sideRow('ours, `gradients: "bf16"`', side));
  const sides = [...ours.map((side) => sideRow("ours", side)), ...rounded, ...trl.map((side) => sideRow("TRL", side))];
  const settings = tried.map(
    ({ setting, cpuSecondsAStep }) => `${settingText(setting)}: ${seconds(cpuSecondsAStep)} CPU s a step`,
  );
  const chosen = trl[0]?.setting;
  const share = ours[0]!.trainings[0]!.samplingShare;
  return `## ${kind}

${compared ? `${headline({ ours, trl })}. ` : "Ours alone: there was no Python to run TRL with. "}Medians of ${seeds.length === 1 ? "one seed" : `${seeds.length} seeds`}, each seed in brackets. Ratios are TRL's best over its rows to the best over ours, for each figure by itself.${bf16Text(record)}

| | threads | steps | CPU s | s by the clock | CPU s a step | CPU s of the whole process |
| --- | --: | --: | --: | --: | --: | --: |
${sides.join("\n")}

${chosen ? `TRL trains with ${settingText(chosen)}, the best of what was tried in the same run on one thread (${settings.join("; ")}). ` : ""}${share === undefined ? "" : `Ours spends ${(100 * share).toFixed(0)}% of a step's time on sampling and rewards, the rest on learning.`}${boundText(record)}

| | seed | tokens a reply | mean reward of each step |
| --- | --: | --: | --- |
${[...curveRows("ours", ours[0]!, seeds), ...(oursBf16[0] ? curveRows("ours, bf16", oursBf16[0], seeds) : []), ...(compared ? curveRows("TRL", trl[0]!, seeds) : [])].join("\n")}

${date}, ${machine}; load ${load.before.toFixed(1)} before, ${load.after.toFixed(1)} after.${roofline ? ` Measured in the same run, ${rooflineText(roofline)}.` : ""}
`;
}

export interface Task {
  target: number;
  window: number;
  groupsPerStep: number;
  groupSize: number;
  learningRate: number;
  temperature: number;
  maxTokens: number;
}

export function page(records: Records<RewardRecord>, task: Task): string {
  const { target, window, groupsPerStep, groupSize, learningRate, temperature, maxTokens } = task;
  return `# Time to reward

Written by \`npm run bench:reward\`: how long the demo's task takes in its single-turn form (a customer's opener, one reply, the demo's reward for courtesy and
brevity) until the mean reward of ${window} steps in a row reaches ${target}, here and with TRL's \`GRPOTrainer\`, on the same CPU, one after the other.

The same on both sides: the starter model with all its weights trained in f32; the openers, in the same order; ${groupsPerStep} openers × ${groupSize} replies a step, one update;
temperature ${temperature}, at most ${maxTokens} tokens; GRPO's loss, advantages scaled by the group's deviation, no KL; AdamW with a constant rate of ${learningRate} and the same betas, no decay, the gradient's norm cut at 1.
The reward is the same code: for TRL a Node process computes it, its fluency check by the frozen model included, and what that costs is counted on both sides.

What differs: random numbers, so the replies and the number of steps; TRL runs with padded batches and writes out each prompt ${groupSize} times, ours computes a shared prompt once. Ours scores four
conversations of each step again after the update (a metric of its runs); TRL logs nothing. Neither writes files. TRL has sdpa attention, no vLLM (which wants a GPU), threads that wait without spinning, and whichever
of f32 and bf16 products and of two batch sizes is cheapest here; bf16 keeps weights in f32.

CPU seconds are those of all threads, from the start of the first step to the end of the last. Imports and loading are left out there and included in the last column (the reward process of TRL not).

${Object.entries(records)
  .map(([kind, record]) => section(kind, record))
  .join("\n")}`;
}
