/** What the runs show, in words. */
import { estimateGroups, pairedTest } from "stateset-agents/telemetry";
import { estimateText } from "../estimate.ts";
import type { JobRow } from "../parallel.ts";
import { full, type HarnessJob, type HarnessResult, labelOf, learningRate } from "./learn.ts";

const two = (value: number) => value.toFixed(2);

type Row = JobRow<HarnessJob, HarnessResult>;

const success = (tasks: readonly number[]) => estimateText(estimateGroups(tasks.map((share) => [share])), two);
/** Of the same tasks after and before, in pairs. */
const change = ({ result: { before, after } }: Row) => pairedTest(before, after);

export function verdicts(rows: readonly Row[]): { text: string; shown: boolean }[] {
  return rows.map((row) => {
    const { verdict } = change(row);
    const { firstRatioMax } = row.result;
    const shown = verdict === (row.job.sign > 0 ? "b" : "a") && firstRatioMax === 1;
    const { before, after } = row.result;
    return {
      shown,
      text: `${shown ? "✓" : "✗"} ${labelOf(row.job)}: ${success(before)} → ${success(after)}, first ratio ${firstRatioMax}`,
    };
  });
}

export function page(rows: readonly Row[]): string {
  const [{ machine }] = rows as [Row];
  const lines = rows.map((row) => {
    const { before, after, firstRatioMax, calls, continued, conversations, lost } = row.result;
    return `| ${labelOf(row.job)} | ${success(before)} | ${success(after)} | ${estimateText(change(row).difference, two)} | ${firstRatioMax} | ${conversations} (${lost} lost) | ${calls} (${continued} continued) | ${Math.round(row.cpuSeconds)} s |`;
  });
  return `# Agents of other SDKs, trained as they are

Written by \`npm run proof:harness\`. An agent of the AI SDK (\`ai\` 6) and one of the Agents SDK (\`@openai/agents\` 0.14), each with the tools of a
[shop](../guides/tasks.md#two-domains) that run in the agent's own process, streaming on, answer questions that need a look-up. Nothing in them knows of training: they are given an
address and a key ([harness](../guides/harness.md)). The starter model learns by GRPO for ${full.steps} steps of ${full.groupsPerStep} groups of ${full.groupSize} at a learning rate of ${learningRate}; a conversation is worth 1
when the answer is right and 0 otherwise, also where the SDK throws at what the model wrote, and with the sign flipped −1 and 0. Success is of ${full.heldOutTasks} held-out tasks, ${full.samples} conversations each at temperature 1, with 95%
intervals over tasks; the change is of the same tasks, in pairs. A first ratio of 1 says that what was recorded is what learns, bit for bit. ${machine}.

| run | before | after | change | first ratio | conversations | calls | processor |
| --- | --- | --- | --- | --- | --- | --- | --- |
${lines.join("\n")}
`;
}
