/** The page's part on the starter model, from kept runs alone. */
import { algorithmNames } from "../../../packages/stateset-agents/src/algorithm/algorithms.ts";
import { differenceText, markdown, notRun, roundsText } from "../report.ts";
import { seeds, tuningSeeds } from "../settings.ts";
import { baselineLearner, type Learner, learnerName, passLearners, tunedLearner } from "./measure.ts";
import {
  baselineName,
  conversationsPerStep,
  evaluationSamples,
  harvestingOf,
  passes,
  rates,
  rounds,
  steps,
  triedRates,
  tunedRate,
} from "./settings.ts";
import { maxTokens, type TaskName, tasks } from "./tasks.ts";
import { againstBestOfN, find, judgeStarter, mean, type StarterRun, type StarterVerdict } from "./verdict.ts";

type Runs = readonly StarterRun[];
const taskNames = Object.keys(tasks) as TaskName[];
const number = (value: number) => value.toFixed(3);
const p = (value: number) => (value < 0.001 ? value.toFixed(4) : value.toFixed(3));
const yes = (holds: boolean) => (holds ? "yes" : "NO");

export const learners: readonly Learner[] = [
  ...algorithmNames.map((algorithm) => ({ by: "defaults" as const, algorithm })),
  tunedLearner,
  ...rounds.map(baselineLearner),
];

export function starterSection(runs: Runs, machines: readonly string[]): string {
  if (runs.length === 0) return "";
  return `## On the starter model, at the options a user gets

The bundled starter model, trained by \`train({ agent, environment, reward, algorithm, steps, maxTurns, seed })\` and nothing else: rate, group size, clip,
critic and all the rest are the defaults. Replies have at most ${maxTokens} tokens; rewards are checked by code and lie between 0 and 1. Every
number is of held-out scenarios, which word things differently from those trained on, at the temperature of training. *before* is the untrained model
(${evaluationSamples.untrained} conversations a scenario); *after* the mean over the seeds ${seeds.join(", ")} (${evaluationSamples.trained} a scenario and seed), with the least and the greatest of them. Tasks, steps
and the baselines' rates were chosen with seeds ${tuningSeeds.join(" and ")}. Of the defaults the rate was chosen on another task ([classes](classes.md)), after
trials with seeds 1 and 2 on these had spoken for a higher one too; the others were not chosen here.

*p* is of a paired sign-flip test over the scenarios (two-sided; 0.0002 is the least that 9,999 resamples can give). *rises*: the difference is beyond
chance at 5%, and every seed ends above the untrained model. *flipped*, *falls*: the same after training on the negated reward.

${taskNames.map((task) => taskSection(runs, task)).join("\n\n")}

![Before, after and flipped on each task](../images/proof-starter.svg)

${classSection(runs)}

${passSection(runs)}

${baselineSection(runs)}

Machine${machines.length === 1 ? "" : "s"}: ${machines.join("; ")}.
`;
}

function taskSection(runs: Runs, task: TaskName): string {
  const { title, training, heldOut } = tasks[task];
  const rows = learners.flatMap((learner) => {
    const verdict = judgeStarter(runs, task, learner);
    return verdict ? [[learnerName(learner), ...taskRow(verdict)]] : [];
  });
  const head = ["", "before", "after", "seeds", "p", "rises", "flipped", "p", "falls", "conversations", "processor s"];
  return `### ${task}: ${title}

${training.length} scenarios to train on, ${heldOut.length} held out; ${steps[task]} steps.

${markdown(head, rows)}${notRun(withoutRow(runs, task, learners))}`;
}

function withoutRow(runs: Runs, task: TaskName, among: readonly Learner[]): string[] {
  return among.filter((learner) => !judgeStarter(runs, task, learner)).map(learnerName);
}

function taskRow({ before, after, bySeed, pValue, rises, flipped, runs }: StarterVerdict): string[] {
  return [
    number(before),
    number(after),
    `${number(Math.min(...bySeed))}–${number(Math.max(...bySeed))}`,
    p(pValue),
    yes(rises),
    ...(flipped ? [number(flipped.after), p(flipped.pValue), yes(flipped.falls)] : ["–", "–", "–"]),
    mean(runs.map(({ conversations }) => conversations)).toFixed(0),
    mean(runs.map(({ cpuSeconds }) => cpuSeconds)).toFixed(0),
  ];
}

function classSection(runs: Runs): string {
  const verdicts = learners.flatMap((learner) => {
    const verdict = judgeStarter(runs, "classes", learner);
    return verdict ? [{ learner, verdict }] : [];
  });
  if (verdicts.length === 0) return "";
  const names = Object.keys(verdicts[0]!.verdict.classes);
  const untrained = names.map((name) => number(verdicts[0]!.verdict.classes[name]!.before));
  const rows = verdicts.map(({ learner, verdict }) => [
    learnerName(learner),
    ...names.map((name) => {
      const { after, flipped } = verdict.classes[name]!;
      return `${number(after)}${flipped === undefined ? "" : ` / ${number(flipped)}`}`;
    }),
  ]);
  return `### Each class of the task "classes"

After training / with the sign flipped. A mean can rise while a class is lost: here each stands for itself.

${markdown(["", ...names], [["untrained", ...untrained], ...rows])}`;
}

function passSection(runs: Runs): string {
  const rows = passLearners.flatMap((learner) => {
    const verdict = judgeStarter(runs, passes.task, learner);
    if (!verdict) return [];
    const of = (name: "clipFraction" | "approxKl") => {
      const values = verdict.runs.flatMap((run) => run[name] ?? []);
      return values.length === 0 ? "–" : mean(values).toFixed(4);
    };
    const { after, bySeed, pValue, rises } = verdict;
    const each = bySeed.map(number).join(", ");
    return [[learnerName(learner), number(after), each, p(pValue), yes(rises), of("clipFraction"), of("approxKl")]];
  });
  if (rows.length === 0) return "";
  return `### Four passes over every rollout

A clip, and SAPO's gate, does nothing while a rollout is used once. So those that have one are run on the task "${passes.task}" with \`updatesPerRollout: ${passes.updatesPerRollout}\` as well; all with
groups of 8, so that their losses alone differ. With one pass GRPO, GSPO and GSPO-token are one gradient: ${onePass(runs)}
With four, GSPO's ratio of the whole reply and its narrow clip part from GRPO. GSPO-token is GSPO as long as the tokens of a conversation have one advantage
between them; given the reward turn by turn (\`credit: "turn"\`) it is another.

${markdown(["× passes", "after", "by seed", "p", "rises", "clip fraction", "KL a step"], rows)}${notRun(withoutRow(runs, passes.task, passLearners))}`;
}

/** Whether the three with one pass ended in the same replies. */
function onePass(runs: Runs): string {
  const ends = (["grpo", "gspo", "gspo-token"] as const).map((algorithm) =>
    find(runs, passes.task, { by: "passes", algorithm, updatesPerRollout: 1 }, 1).map(({ scenarios }) => scenarios),
  );
  if (ends.some((one) => one.length === 0)) return "not measured here.";
  const score = (one: number[][]) => mean(one.map(mean));
  const same = ends.every((one) => JSON.stringify(one) === JSON.stringify(ends[0]));
  return same
    ? "the three rows below are the same, scenario by scenario."
    : `they differ by rounding alone, which sampling makes larger (${ends.map((one) => number(score(one))).join(", ")}).`;
}

function baselineSection(runs: Runs): string {
  const measured = algorithmNames.filter((algorithm) =>
    taskNames.some((task) => judgeStarter(runs, task, { by: "defaults", algorithm })),
  );
  const counts = rounds.flatMap((inRounds) => {
    const cells = taskNames.map((task) => {
      const verdicts = algorithmNames.flatMap(
        (algorithm) => againstBestOfN(runs, task, { by: "defaults", algorithm })[baselineName(inRounds)]?.verdict ?? [],
      );
      const count = (wanted: string) => verdicts.filter((verdict) => verdict === wanted).length;
      return verdicts.length === 0 ? "–" : `${count("b")} / ${count("same")} / ${count("a")}`;
    });
    return cells.every((cell) => cell === "–") ? [] : [[roundsText(inRounds), ...cells]];
  });
  if (counts.length === 0) return "";
  const plans = rounds.map((inRounds) => harvestingOf("echo", inRounds, rates[inRounds]!));
  return `### Against SFT on best-of-N, on the starter model

As many conversations as GRPO has (${conversationsPerStep} a step), in 1, 3 and 10 rounds, and twice as many updates; of every scenario ${plans.map(({ n, keep }) => `${keep} of ${n}`).join(", ")} (task "echo") are imitated.
Its rate was chosen with seeds ${tuningSeeds.join(" and ")} over the three tasks (\`npm run proof -- --tune\`): of ${triedRates.join(", ")} the best were ${rounds.map((inRounds) => `${rates[inRounds]} (${inRounds})`).join(", ")}.
The algorithms have their default rate, which is not tuned to these tasks. How many of the ${measured.length} that were run are better / even / worse, by the paired test over scenarios at 5%:

${markdown(["", ...taskNames], counts)}${tunedSection(runs)}`;
}

function tunedCell(runs: Runs, task: TaskName, inRounds: number): string {
  const found = againstBestOfN(runs, task, tunedLearner)[baselineName(inRounds)];
  if (!found) return "–";
  const { mean: difference, low = difference, high = difference } = found.difference;
  const words = { a: "worse", b: "better", same: "even", unknown: "even" } as const;
  return differenceText({ mean: difference, low, high, verdict: words[found.verdict] });
}

function tunedSection(runs: Runs): string {
  const rows = rounds.map((inRounds) => [
    roundsText(inRounds),
    ...taskNames.map((task) => tunedCell(runs, task, inRounds)),
  ]);
  if (rows.every(([, ...cells]) => cells.every((cell) => cell === "–"))) return "";
  return `

With GRPO's rate chosen in the same way (${tunedRate}) and everything else at its default, the same test says of it:

${markdown(["", ...taskNames], rows)}`;
}
