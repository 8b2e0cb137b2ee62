/** What `npm run bench:real` found, in words and tables. */
import { estimateMean, pairedTest } from "stateset-agents/telemetry";
import { estimateText } from "../estimate.ts";
import { type Roofline, rooflineText } from "../machine.ts";
import type { JobRow } from "../parallel.ts";
import { carriers, defaultCarrier } from "./carriers.ts";
import { type LearnJob, type LearnResult, type Scores, samplesPerScenario } from "./learn.ts";
import { decoding, type Memory, type Speed, step } from "./machine-costs.ts";
import { nameOf } from "./model.ts";
import type { Distance, Parity } from "./parity.ts";
import { type TaskName, tasks, variants } from "./task.ts";

export type RealRun = Omit<JobRow<LearnJob, LearnResult>, "settings">;

export interface Stamp {
  date: string;
  model: string;
  machine: string;
  roofline?: Roofline;
}

/** What was measured of one model. */
export interface Measured {
  parity?: Stamp & Parity;
  speed?: Stamp & Speed;
  memory?: Stamp & Memory;
}

/** What benchmarks/results/real.json holds; `others` by the name of the model. */
export interface Kept extends Measured {
  others?: Record<string, Measured>;
  runs: RealRun[];
  tuning: RealRun[];
}

/** The model that the page is about. */
export const mainModel = nameOf(carriers[defaultCarrier]!.file);

const measures = {
  greedy: "reward, greedy",
  greedyPass: "right, greedy (pass@1)",
  sampled: "reward, sampled",
  sampledPass: "right, sampled (pass@1)",
  anyPass: `right, one of ${samplesPerScenario} (pass@${samplesPerScenario})`,
} as const satisfies Record<keyof Scores, string>;

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
const shown = (value: number) => value.toFixed(3);
const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n");

/** A line a run and set: means of every measure. */
export function summary(runs: readonly RealRun[]): string[] {
  return runs.flatMap(({ job, result }) =>
    Object.entries(result.tests).map(([set, scores]) => {
      const cells = (Object.keys(measures) as (keyof Scores)[]).map((one) => `${one} ${shown(mean(scores[one]))}`);
      const what = job.steps === 0 ? "untrained" : `${job.variant} seed ${job.seed}${job.sign === 1 ? "" : " flipped"}`;
      return `${job.task} · ${what} · ${set} · ${cells.join(", ")} · ${(result.trainingSeconds / 60).toFixed(1)} min`;
    }),
  );
}

export function page({ others = {}, runs, tuning, ...main }: Kept): string {
  const of = (model: string, all: readonly RealRun[]) => all.filter(({ job }) => job.model === model);
  const names = [...new Set([...Object.keys(others), ...runs.map(({ job }) => job.model)])];
  const beside = names
    .filter((name) => name !== mainModel)
    .map((name) => `## ${name}\n\n${demoted(sections(others[name] ?? {}, of(name, runs), of(name, tuning)))}`);
  return `# A real model, measured

Written by \`npm run bench:real\`. The model is SmolLM2-135M-Instruct (Apache-2.0) in the form most people download: a GGUF file of four-bit
numbers (Q4_1, 98 MB). It is fetched from the Python package that carries it, and is not part of this repository.

${[sections(main, of(mainModel, runs), of(mainModel, tuning)), ...beside].join("\n\n")}
`;
}

function sections({ parity, speed, memory }: Measured, runs: readonly RealRun[], tuning: readonly RealRun[]): string {
  const all = [
    parity && paritySection(parity),
    learningSection(runs),
    tuningSection(tuning),
    memory && memorySection(memory),
    speed && speedSection(speed),
  ];
  return all.filter(Boolean).join("\n\n");
}

const demoted = (text: string) => text.replace(/^#/gm, "##");

function paritySection({
  prompts,
  greedyEqual,
  firstDifferences,
  tokens,
  transformers,
  llama,
  ...stamp
}: Stamp & Parity): string {
  const far = ({ mean: middle, max }: Distance) => [middle.toExponential(1), max.toExponential(1)];
  const rows = [
    ...(transformers ? [["ours to transformers, f32 on the dequantised weights", ...far(transformers)]] : []),
    ...(llama
      ? [
          ["ours to llama.cpp on the dequantised file", ...far(llama.ours)],
          ["llama.cpp on the file as it is to the same", ...far(llama.itself)],
        ]
      : []),
  ];
  const differing = firstDifferences?.length ? `, the others part at token ${firstDifferences.join(", ")}` : "";
  const greedy =
    greedyEqual === undefined
      ? ""
      : `Greedy replies to ${prompts} prompts: in ${greedyEqual} each token is the one that transformers holds likeliest there${differing}.`;
  return `## Is it the same model?

${greedy}
Log-probs of ${tokens} tokens, how far apart, in nats. llama.cpp multiplies four-bit weights with activations that it rounds to eight bits; we
compute in f32, so ours should be nearer to the dequantised run than its own.

${table(["", "mean", "greatest"], rows)}

${stampText(stamp)}`;
}

export function learningSection(runs: readonly RealRun[]): string {
  const parts = (Object.keys(tasks) as TaskName[]).flatMap((task) => {
    const own = runs.filter(({ job }) => job.task === task);
    const text = taskSection(task, own);
    return text ? [text] : [];
  });
  if (parts.length === 0) return "";
  return `## Does it learn?

LoRA at the defaults of \`lora: true\`, GRPO at those of \`train()\` but for what a table names. Numbers are of scenarios that neither training nor the
choice of settings saw, mean over the seeds, with 95% intervals over scenarios. *p*: paired sign-flip test over the scenarios against the untrained
model. *flipped*: the first seed, trained on 1 − reward. Sampled at temperature 1 with ${samplesPerScenario} replies a scenario.

${parts.join("\n\n")}`;
}

function taskSection(task: TaskName, runs: readonly RealRun[]): string | undefined {
  const untrained = runs.find(({ job }) => job.steps === 0);
  const right = runs.filter(({ job }) => job.steps > 0 && job.sign === 1);
  const wrong = runs.filter(({ job }) => job.steps > 0 && job.sign === -1);
  if (!untrained || right.length === 0) return undefined;
  const { title, variant, maxTokens, training } = tasks[task];
  const rows = Object.keys(untrained.result.tests).flatMap((set) =>
    (Object.keys(measures) as (keyof Scores)[]).map((measure) => {
      const scores = (run: RealRun) => run.result.tests[set]![measure];
      const before = scores(untrained);
      const after = overSeeds(right.map(scores));
      const { difference, pValue, verdict } = pairedTest(before, after);
      return [
        set,
        measures[measure],
        estimateText(estimateMean(before)),
        estimateText(estimateMean(after)),
        estimateText(difference),
        pValue < 0.001 ? "<0.001" : pValue.toFixed(3),
        { b: "better", a: "WORSE", same: "no difference shown", unknown: "too few to tell" }[verdict],
        right.map((run) => shown(mean(scores(run)))).join(", "),
        wrong.map((run) => shown(mean(scores(run)))).join(", ") || "–",
      ];
    }),
  );
  const { job, result } = right[0]!;
  const average = (of: (run: RealRun) => number) => mean(right.map(of));
  const costs = [
    String(right.length),
    String(job.steps),
    String(result.conversations),
    average((run) => run.result.tokens).toFixed(0),
    (average((run) => run.result.trainingSeconds) / 60).toFixed(1),
    (average((run) => run.cpuSeconds) / 3600).toFixed(2),
    `${(average((run) => run.result.peakBytes) / 2 ** 20).toFixed(0)} MiB`,
    `${((average((run) => run.result.trainingSeconds) / 3600) * laptopWatts).toFixed(0)} Wh`,
  ];
  return `### ${task}: ${title}

${settingsText(job.variant)}; replies of at most ${maxTokens} tokens; ${trainingCount(result, job, training)}${variant === job.variant ? "" : ` (the settings are now \`${variant}\`)`}.

${table(["", "", "before", "after", "difference", "p", "", "each seed", "flipped"], rows)}

What a run cost, mean over the seeds. Energy: what a laptop that draws ${laptopWatts} W under load takes for the time of training on two of its cores.

${table(["runs", "steps", "conversations", "tokens sampled", "minutes of training", "processor hours, measuring included", "peak memory", "energy"], [costs])}

Reward of the training's tenths, seed by seed: ${right.map((run) => tenths(run.result.rewards)).join("; ")}.

Machine: ${machinesText(runs)}.${job.engine ? "" : " Two threads a run."}`;
}

const laptopWatts = 30;

function trainingCount({ parameters, trainable }: LearnResult, { steps }: LearnJob, training: () => unknown[]): string {
  let scenarios = "";
  try {
    scenarios = `${training().length} scenarios to train on, `;
  } catch {
    // The task's data is not on this machine; the page says the rest.
  }
  return `${scenarios}${steps} steps; ${(trainable / 1e6).toFixed(1)} of ${(parameters / 1e6).toFixed(0)} million numbers are trained`;
}

function settingsText(variant: keyof typeof variants): string {
  const options = variants[variant];
  return Object.keys(options).length === 0 ? "Defaults alone" : `\`${JSON.stringify(options)}\` beside the defaults`;
}

function tuningSection(runs: readonly RealRun[]): string {
  if (runs.length === 0) return "";
  const rows = runs.map(({ job, result }) => {
    const scores = Object.values(result.tests)[0]!;
    const cells = (Object.keys(measures) as (keyof Scores)[]).map((one) => shown(mean(scores[one])));
    const what = job.steps === 0 ? "untrained" : `\`${job.variant}\``;
    return [job.task, what, String(job.steps), ...cells, (result.trainingSeconds / 60).toFixed(1)];
  });
  return `## What was tried first

Seed 1, measured on scenarios that are in no test, to choose the settings above.

${table(["task", "settings", "steps", ...Object.values(measures), "minutes"], rows)}`;
}

function memorySection({ ours, peft, ...stamp }: Stamp & Memory): string {
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const rows = [
    ["ours", mib(ours.peakBytes), `${ours.seconds.toFixed(2)} s`],
    ...(peft ? [["torch + peft, f32", mib(peft.peakBytes), `${peft.seconds.toFixed(2)} s`]] : []),
    ...(peft ? [["ours to theirs", shown(ours.peakBytes / peft.peakBytes), shown(ours.seconds / peft.seconds)]] : []),
  ];
  return `## Memory and time of a step

LoRA of rank ${step.rank} on all linear layers, ${step.sequences} sequences of ${step.length} tokens, every token learnt; peak of the process, its program included.

${table(["", "peak memory", "a step"], rows)}

${stampText(stamp)}`;
}

function speedSection({ decode, ...stamp }: Stamp & Speed): string {
  const rows = Object.entries(decode).map(([batch, { ours, llama, transformers, transformersType }]) => [
    batch,
    ours.toFixed(1),
    llama === undefined ? "–" : `${llama.toFixed(1)} (${(ours / llama).toFixed(2)})`,
    transformers === undefined
      ? "–"
      : `${transformers.toFixed(1)} ${transformersType} (${(ours / transformers).toFixed(2)})`,
  ]);
  return `## Speed

Tokens a second, ${decoding.tokens} after a prompt of ${decoding.prompt}; in brackets ours over theirs. llama.cpp runs the same file, and draws no
tokens: ours and transformers do.

${table(["sequences", "ours", "llama.cpp", "transformers, its faster type"], rows)}

${[stampText(stamp), arithmetic(decode, stamp)].filter(Boolean).join("\n\n")}`;
}

/** What the rates are beside what the machine could do, for files whose matrices are known. */
function arithmetic(decode: Speed["decode"], { model, roofline }: Stamp): string {
  const weights = Object.values(carriers).find(({ file }) => nameOf(file) === model)?.weights;
  if (!weights) return "";
  const { layers, head, bytes } = weights;
  const token = layers + head;
  // The prompt counts as time in ours alone.
  const ours = token + (decoding.prompt / decoding.tokens) * layers;
  const peak = roofline?.gigaMultiplyAdds.all;
  const rows = Object.entries(decode).map(([batch, { ours: own, llama }]) => {
    const rate = (own * ours) / 1e9;
    const read = (perSecond: number) => ((perSecond / Number(batch)) * bytes) / 1e9;
    return [
      batch,
      `${rate.toFixed(1)}${peak ? ` of ${peak.toFixed(0)}` : ""}`,
      read(own).toFixed(1),
      llama === undefined ? "–" : ((llama * token) / 1e9).toFixed(1),
      llama === undefined ? "–" : read(llama).toFixed(1),
    ];
  });
  const millions = (count: number) => (count / 1e6).toFixed(0);
  const least = peak
    ? ` At ${peak.toFixed(0)} billion a second no f32 program would pass ${((peak * 1e9) / ours).toFixed(0)} tokens a second here.`
    : "";
  return `The arithmetic: a drawn token passes ${millions(token)} million weights, one multiply-add each, a prompt's token ${millions(layers)} million (no logits). A step reads ${millions(bytes)} MB
of weights, once for all its sequences. Both programs need that. We compute in f32 and count the prompt's time: ${millions(ours)} million multiply-adds a drawn token. llama.cpp rounds
activations to 8 bits and multiplies integers, of which an AVX-512 VNNI instruction takes 64 where an f32 one takes 16: its ceiling is four times ours. Its prompt is not timed.${least}

${table(["sequences", "ours: billion f32 multiply-adds a second", "GB/s of weights", "llama.cpp: billion 8-bit ones", "GB/s of weights"], rows)}`;
}

function stampText({ date, model, machine, roofline }: Stamp): string {
  return `${model}, ${date}. Machine: ${machineText(machine, roofline)}.`;
}

function machineText(machine: string, roofline: Roofline | undefined): string {
  return roofline ? `${machine}. Measured in the same run, ${rooflineText(roofline)}` : machine;
}

/** Each machine once, as it was when its first run began. */
function machinesText(runs: readonly RealRun[]): string {
  const first = runs.filter(({ machine }, i) => runs.findIndex((run) => run.machine === machine) === i);
  return first.map(({ machine, roofline }) => machineText(machine, roofline)).join("; ");
}

function overSeeds(bySeed: readonly (readonly number[])[]): number[] {
  return bySeed[0]!.map((_, i) => mean(bySeed.map((scores) => scores[i]!)));
}

function tenths(rewards: readonly number[]): string {
  const size = Math.max(1, Math.ceil(rewards.length / 10));
  return Array.from({ length: Math.ceil(rewards.length / size) }, (_, i) =>
    mean(rewards.slice(i * size, (i + 1) * size)).toFixed(2),
  ).join(" ");
}
