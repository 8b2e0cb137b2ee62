/** The runs of `npm run bench:truncated` in words and tables. */
import type { Estimate, MetricName, StepMetrics } from "stateset-agents/telemetry";
import { type PairedResult, pairedTest } from "../../packages/stateset-agents/src/evaluation/paired-test.ts";
import { change, estimateText } from "../estimate.ts";

/** whole: the demo as it is; the others draw with top-p. */
export type Arm = "whole" | "corrected" | "uncorrected";

export interface Measured {
  reward: Estimate;
  words: Estimate;
  /** Mean reward of each held-out scenario. */
  scenarios: Record<string, number>;
}

/** own: drawn as the agent draws; whole: from the whole distribution, as in the demo. */
export type Drawn = "own" | "whole";

export interface Run {
  arm: Arm;
  topP: number;
  seed: number;
  before: Record<Drawn, Measured>;
  after: Record<Drawn, Measured>;
  steps: StepMetrics[];
  warnings: string[];
  seconds: number;
}

const signed = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
const mean = (numbers: readonly number[]) => numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
/** A number a step, or – where the step has none (nothing was learnt from it, say). */
const curveOf = ({ steps }: Run, name: MetricName) =>
  steps.map(({ [name]: value }) => value?.toFixed(2) ?? "–").join(" ");

export function verdict({ before, after }: Run, drawn: Drawn): string {
  return change(before[drawn].reward, after[drawn].reward);
}

export function rowOf(own: Run): string {
  const { arm, topP, seed, before, after, warnings, seconds } = own;
  const change = (drawn: Drawn) =>
    `${estimateText(before[drawn].reward)} → ${estimateText(after[drawn].reward)}, ${verdict(own, drawn)}`;
  const said = warnings.length === 0 ? "no warning" : `warned: ${warnings.join(" / ")}`;
  return `${arm}, top-p ${topP}, seed ${seed}, ${seconds} s\n  as it draws: ${change("own")}\n  whole:       ${change("whole")}\n  ${said}`;
}

/** The metrics that are printed and kept. */
export const shown = [
  "reward",
  "groupStd",
  "constantGroups",
  "entropy",
  "mismatch",
  "mismatchMax",
  "mismatchClipped",
  "replyTokens",
] as const satisfies MetricName[];

export function stepLines({ steps }: Run): string[] {
  return [
    `  step  ${shown.join("  ")}`,
    ...steps.map(
      (metrics) =>
        `  ${String(metrics.step).padEnd(4)}  ${shown.map((name) => (metrics[name]?.toFixed(3) ?? "–").padEnd(name.length)).join("  ")}`,
    ),
  ];
}

/** An arm against the demo as it is, after training: rewards of the held-out scenarios, each the mean over the seeds, in pairs. */
export function againstWhole(arm: Arm, runs: readonly Run[], drawn: Drawn): PairedResult {
  const means = (of: Arm) => {
    const own = runs.filter((one) => one.arm === of).map(({ after }) => after[drawn].scenarios);
    return Object.keys(own[0]!).map((id) => mean(own.map((scenarios) => scenarios[id]!)));
  };
  return pairedTest(means("whole"), means(arm));
}

const drawnWords = { own: "as it draws", whole: "from the whole distribution" } as const;

/** One line for each arm and way of drawing: mean rise over the seeds, and the difference to the demo as it is. */
export function summary(runs: readonly Run[]): string[] {
  return (["whole", "corrected", "uncorrected"] as const).flatMap((arm) =>
    (["own", "whole"] as const).map((drawn) => {
      const own = runs.filter((one) => one.arm === arm);
      const of = (when: "before" | "after") => mean(own.map((one) => one[when][drawn].reward.mean));
      const cells = [
        arm,
        drawnWords[drawn],
        of("before").toFixed(3),
        of("after").toFixed(3),
        signed(of("after") - of("before")),
      ];
      return `| ${[...cells, arm === "whole" ? "" : difference(againstWhole(arm, runs, drawn))].join(" | ")} |`;
    }),
  );
}

function difference({ difference: by, pValue }: PairedResult): string {
  return `${estimateText(by, signed)}, p ${pValue.toPrecision(2)}`;
}

/** What top-p leaves out, at the end of training: by Jensen, a reply keeps clear of it with a probability of at least e^(−Σ −ln w). */
function tailWords(runs: readonly Run[]): string {
  const ends = runs.filter(({ arm }) => arm === "corrected").map(({ steps }) => steps.at(-1)!);
  const [perToken, tokens] = [mean(ends.map((end) => end.mismatch!)), mean(ends.map((end) => end.replyTokens!))];
  return `in the last step the mean of −ln w is ${perToken.toFixed(3)} and a reply
has ${tokens.toFixed(0)} tokens, so drawn from the whole distribution up to ${Math.round(100 * (1 - Math.exp(-perToken * tokens)))}% of the replies hold a token that top-p would have cut.`;
}

export function page(
  runs: readonly Run[],
  { steps, topP, machine }: { steps: number; topP: number; machine: string },
): string {
  const seeds = [...new Set(runs.map(({ seed }) => seed))];
  const rows = runs.map((own) => {
    const { arm, seed, before, after } = own;
    const cells = (["own", "whole"] as const).flatMap((drawn) => [
      estimateText(before[drawn].reward),
      estimateText(after[drawn].reward),
      verdict(own, drawn),
    ]);
    return `| ${[arm, seed, ...cells].join(" | ")} |`;
  });
  const curves = (own: Run) =>
    (["reward", "groupStd", "mismatch", "mismatchMax", "mismatchClipped"] as const)
      .filter((name) => own.steps.some((metrics) => metrics[name] !== undefined))
      .map((name) => `| ${own.arm} | ${own.seed} | \`${name}\` | ${curveOf(own, name)} |`);
  const warnings = [...new Set(runs.flatMap(({ arm, warnings: said }) => said.map((one) => `${arm}: ${one}`)))];
  return `# The demo under top-p, measured

Written by \`npm run bench:truncated\`: what \`npm run demo\` trains (${steps} steps of GRPO on the starter model, seeds ${seeds.join(", ")}), drawn from the
whole distribution (\`whole\`), with \`sampling.topP\` ${topP} and the correction that \`train()\` makes by itself (\`corrected\`), and with \`correction: false\`
(\`uncorrected\`). The reward is the demo's, on held-out scenarios; replies are drawn as the agent draws in training, and from the whole
distribution, which is what the demo reports. Intervals cover 95%.

The correction weighs each token by w = p/q, the mass of the tokens that top-p left: from ${topP} to 1. So \`mismatch\` is the mean of −ln w,
\`mismatchMax\` at most −ln ${topP} = ${(-Math.log(topP)).toFixed(3)}, and the cap of 2 never acts. It makes up for tokens that were drawn too often. Tokens that are never drawn have
no sample to weigh, so the policy learns next to nothing about them: ${tailWords(runs)}

| arm | seed | as it draws: before | after | | whole: before | after | |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}

Means over the seeds, and after training the difference to \`whole\` over scenarios, in pairs (95% interval, sign-flip test):

| arm | drawn | before | after | rise | against \`whole\` |
| --- | --- | --- | --- | --- | --- |
${summary(runs).join("\n")}

## Step by step

| arm | seed | metric | steps 1 to ${steps} |
| --- | --- | --- | --- |
${runs.flatMap(curves).join("\n")}

## What was warned of

${warnings.map((line) => `- ${line}`).join("\n") || "Nothing."}

Machine: ${machine}.
`;
}
