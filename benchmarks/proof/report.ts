import type { ClipResult } from "./main.ts";
import { run } from "./settings.ts";
import type { Verdict } from "./verdict.ts";

export function table(verdicts: Readonly<Record<string, Verdict>>): string {
  const rows = Object.entries(verdicts).map(([name, v]) => [
    name,
    v.before.toFixed(3),
    v.after.toFixed(3),
    v.flipped.toFixed(3),
    v.rises ? "yes" : "NO",
    v.falls ? "yes" : "NO",
    String(Math.round(v.updates)),
    String(v.updatesToHalf),
    v.seconds.toFixed(1),
    String(v.seeds),
  ]);
  const head = [
    "algorithm",
    "before",
    "after",
    "sign flipped",
    "rises",
    "falls",
    "updates",
    "to halfway",
    "seconds",
    "seeds",
  ];
  return [head, head.map((_, i) => (i === 0 ? "---" : "--:")), ...rows]
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
}

export function page(
  verdicts: Readonly<Record<string, Verdict>>,
  clip: ClipResult | undefined,
  machine: string,
): string {
  return `# Every algorithm learns

Written by \`npm run proof\`. A transformer with random weights (Llama, 2 layers of 32, one token a letter) is trained through the embedded
engine on a reward that code checks: the user says "low" or "high", the assistant should answer with letters of that half of the alphabet,
over two turns. Whoever does not listen gets 0.5. Every algorithm has the same ${run.steps} steps of ${run.groupsPerStep} × ${run.groupSize}
conversations, the same learning rate (${run.learningRate}) and its default options, but for two that do not fit so small a task: DAPO's overlong
penalty is off (nearly every reply reaches the limit of 8 tokens), and VAPO's warm-up and length scale are made for thousands of tokens. Means over the seeds (the column says how many); *before* and *after* are
measured on conversations sampled apart from training.

*rises*: in every seed the 95% interval after training lies above the one before. *falls*: with the reward's sign flipped it lies below.
PPO's default KL penalty (0.05 a token) pays for staying near the start, which keeps it below the others here; critics (PPO, VAPO, A2C) have to learn first.
*to halfway*: updates until the mean curve stays above the middle between before and after.
*seconds*: wall time of one run, with whatever else the machine was doing.

${table(verdicts)}

![Learning curves](images/proof.svg)

${clip ? clipSection(clip) : ""}Machine: ${machine}.
`;
}

function clipSection({ clipped, unclipped }: ClipResult): string {
  return `## The clip is in force

GRPO with four passes over every rollout: with the clip (ε 0.2) and without it, mean over the steps and seeds.

| | clip fraction | KL of sampled tokens per step |
| --- | --: | --: |
| clipped | ${clipped.clipFraction.toFixed(4)} | ${clipped.approxKl.toFixed(5)} |
| unclipped | 0 | ${unclipped.approxKl.toFixed(5)} |

`;
}

/** Small multiples: one panel an algorithm, the mean curve solid, the flipped one dashed. */
export function plot(verdicts: Readonly<Record<string, Verdict>>): string {
  const entries = Object.entries(verdicts);
  const columns = 4;
  const [width, height, left, top, gap] = [170, 96, 34, 30, 26];
  const rows = Math.ceil(entries.length / columns);
  const total = { width: left + columns * (width + gap), height: top + rows * (height + gap + 14) };
  const panels = entries.map(([name, verdict], i) => {
    const x = left + (i % columns) * (width + gap);
    const y = top + Math.floor(i / columns) * (height + gap + 14);
    const line = (values: readonly number[], style: string) =>
      `<polyline fill="none" stroke-width="1.6" ${style} points="${values
        .map(
          (v, k) =>
            `${(x + (k / Math.max(1, values.length - 1)) * width).toFixed(1)},${(y + (1 - v) * height).toFixed(1)}`,
        )
        .join(" ")}"/>`;
    return [
      `<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="none" stroke="#cbd5e1"/>`,
      `<line x1="${x}" x2="${x + width}" y1="${y + height / 2}" y2="${y + height / 2}" stroke="#e2e8f0"/>`,
      `<text x="${x}" y="${y - 6}" font-weight="600">${name}</text>`,
      i % columns === 0
        ? `<text x="${x - 6}" y="${y + 9}" text-anchor="end">1</text><text x="${x - 6}" y="${y + height}" text-anchor="end">0</text>`
        : "",
      line(verdict.curve, 'stroke="#2563eb"'),
      line(verdict.flippedCurve, 'stroke="#dc2626" stroke-dasharray="4 3"'),
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${total.width} ${total.height}" font-family="system-ui, sans-serif" font-size="11" fill="#334155">
<title>Learning curves of every algorithm</title>
<rect width="100%" height="100%" fill="#ffffff"/>
${panels.join("\n")}
</svg>
`;
}
