import type { ClipResult, Letters } from "./results.ts";
import { algorithms, baseline, baselines, run, seeds, triedRates, tuningSeeds } from "./settings.ts";
import { task } from "./task.ts";
import { compare, conversationsTo, type Difference, type Verdict } from "./verdict.ts";

type Verdicts = Readonly<Record<string, Verdict>>;

/** A share that shows how many samples each needs to get good. */
const goal = 0.9;

/** How one fares against each way of imitating the best samples that has been measured. */
export function against(name: string, known: Verdicts): Partial<Record<keyof typeof baselines, Difference>> {
  const found = (Object.keys(baselines) as (keyof typeof baselines)[]).flatMap((other) => {
    const difference = other !== name && known[name] && known[other] && compare(known[name], known[other]);
    return difference ? [[other, difference] as const] : [];
  });
  return Object.fromEntries(found);
}

/** One row for each of `verdicts`; `known` holds what they are compared with. */
export function table(verdicts: Verdicts, known: Verdicts = verdicts): string {
  const head = [
    "algorithm",
    "before",
    "after",
    "sign flipped",
    "rises",
    "falls",
    "beats best-of-N",
    "updates",
    "to halfway",
    `conversations to ${goal}`,
    "seconds",
    "seeds",
  ];
  const rows = Object.entries(verdicts).map(([name, v]) => [
    name,
    v.before.toFixed(3),
    v.after.toFixed(3),
    v.flipped.toFixed(3),
    v.rises ? "yes" : "NO",
    v.falls ? "yes" : "NO",
    beats(against(name, known)[baseline]),
    String(Math.round(v.updates)),
    String(v.updatesToHalf),
    conversationsTo(goal, v)?.toFixed(0) ?? "never",
    v.seconds.toFixed(1),
    String(v.seeds),
  ]);
  return markdown(head, rows);
}

function beats(difference: Difference | undefined): string {
  if (!difference) return "–";
  return { better: "yes", even: "even", worse: "NO" }[difference.verdict];
}

/** Differences to every baseline; undefined when none has been measured. */
export function comparisons(verdicts: Verdicts, known: Verdicts = verdicts): string | undefined {
  const others = (Object.keys(baselines) as (keyof typeof baselines)[]).filter((name) => known[name]);
  const rows = Object.keys(verdicts)
    .filter((name) => name in algorithms)
    .map((name) => [name, ...others.map((other) => differenceText(against(name, known)[other]))]);
  if (others.length === 0 || rows.length === 0) return undefined;
  return markdown(
    ["", ...others.map((name) => `${roundsText(baselines[name].rounds)} (${known[name]!.after.toFixed(3)})`)],
    rows,
  );
}

export function roundsText(rounds: number): string {
  return rounds === 1 ? "one round" : `${rounds} rounds`;
}

export function differenceText(difference: Difference | undefined): string {
  if (!difference) return "–";
  const signed = (value: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
  const { mean, low, high, verdict } = difference;
  return `${signed(mean)} [${signed(low)}, ${signed(high)}] ${verdict}`;
}

export function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map((_, i) => (i === 0 ? "---" : "--:")), ...rows]
    .map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
}

/** Says which learners have no row; nothing is claimed of them. */
export function notRun(names: readonly string[]): string {
  const listed = names.map((name) => `\`${name}\``).join(", ");
  return names.length === 0 ? "" : `\n\nNot run yet, and no part of what is said here: ${listed}.`;
}

export function page({ verdicts, clip, machines }: Letters, starter: string): string {
  const conversations = run.steps * run.groupsPerStep * run.groupSize;
  const { [baseline]: once, ...others } = baselines;
  const repeated = Object.values(others);
  const compared = comparisons(verdicts);
  return `# Every algorithm learns

Written by \`npm run proof\`, in two parts: a toy on which every algorithm has hundreds of steps and can reach the top, and the bundled starter model
at the options a user gets.

## A toy: letters

A transformer with random weights (Llama, 2 layers of 32, one token a letter) is trained through the embedded
engine on a reward that code checks: the user says "low", "middle" or "high", the assistant should answer with letters of that third of the
alphabet, over ${task.replies} turns (${task.scenarios} scenarios, at most 8 letters a reply). A reply earns 1 when all its letters are right, −1 when none is. The numbers below are the
share of right letters; whoever does not listen has a third.

Every algorithm has the same ${run.steps} steps of ${run.groupsPerStep} × ${run.groupSize} conversations, the same learning rate (${run.learningRate}, falling by train()'s default schedule) and its
default options, but for one that does not fit so small a task: DAPO
does not sample on in place of groups that are all alike (it would have seven times the conversations of the others). Means over the seeds ${seeds.join(", ")}; *before* and *after* are
measured on conversations sampled apart from training. GRPO, GSPO, GSPO-token, SAPO and GMPO have one pass over every rollout and groups of one size here: then they are one gradient, and their rows are the same but for rounding.

*rises*: in every seed the 95% interval after training lies above the one before. *falls*: with the reward's sign flipped it lies below.
*beats best-of-N*: the 95% interval of the difference to \`${baseline}\` lies above zero; *even*: it holds zero.
*to halfway*: updates until the mean curve stays above the middle between before and after.
*conversations to ${goal}*: sampled until the mean curve stays above that share.
*seconds*: wall time of one run, with whatever else the machine was doing.

${table(verdicts)}${notRun(Object.keys(algorithms).filter((name) => !verdicts[name]))}

![Learning curves](../images/proof.svg)

### Against SFT on best-of-N

The baseline has as many conversations (${conversations}) and twice as many updates (they cost no samples, and it is better with them). Its rate is tuned, on seeds ${tuningSeeds.join(" and ")}: of
${triedRates.join(", ")} the best were ${Object.values(baselines)
    .map(({ rounds, learningRate }) => `${learningRate} (${roundsText(rounds)})`)
    .join(", ")}.
\`${baseline}\` is the classic form: ${once.n} conversations of every scenario from the untrained model, the best one imitated. It is bound to what
the untrained model happened to say. The others (${repeated.map(({ rounds }) => rounds).join(" and ")} rounds) sample anew from what the round before has made and imitate
${repeated.map(({ keep, n }) => `${keep} of ${n}`).join(" and ")} a scenario. That is reinforcement learning by another name: learning from one's own samples, with a weight
of 1 for the best and 0 for the rest (RAFT, expert iteration, filtered policy gradient), and the more rounds, the more so.

${conclusion(verdicts)}

The task is easy enough that the best rows all end near 1, so small differences at the top say little. Task, size of the model's first logits, steps and rate were chosen with
seeds 1 to 3, after easier settings in which repeated best-of-N was ahead of several algorithms. How many samples each baseline keeps was
chosen there too, in its favour: of 1, 2 and 4 in one round, 3, 6 and 13 in ten; three rounds keep 2.

Differences in the share of right letters after training, with 95% intervals over seeds and conversations:

${compared ?? ""}

### Why these settings

- Thirds of the alphabet, not halves: with halves the best of a thousand replies is nearly perfect by luck, and imitating it leaves nothing to beat.
- Rewards of about one: PPO's KL penalty (0.01 a token), A2C's entropy bonus and the weight of the value loss are prices against the reward, and
  were a conversation to earn the plain share, a letter would be worth 1/16. As it is, it is worth 1/4.
- A falling rate: at a constant one, some runs ended in replies that ignore one of the requests. Such a group's conversations are all alike, so
  they teach nothing, and there is no way back.
- ${run.steps} steps: critics (PPO, VAPO, A2C) have to learn before the policy can learn from them.
- What holds GEPO below the others is part of it: its clip, which acts on fresh samples too, since
  its weight compares a reply with its group instead of with its own likelihood.

${clip ? clipSection(clip) : ""}Machine${machines.length === 1 ? "" : "s"}: ${machines.join("; ")}.

${starter}`;
}

/** How many algorithms are better, even or worse, for each baseline. */
function conclusion(verdicts: Verdicts): string {
  const names = Object.keys(verdicts).filter((name) => name in algorithms);
  const sentences = (Object.keys(baselines) as (keyof typeof baselines)[])
    .filter((other) => verdicts[other])
    .map((other) => {
      const which = (wanted: Difference["verdict"]) =>
        names.filter((name) => against(name, verdicts)[other]?.verdict === wanted);
      const [better, even, worse] = [which("better"), which("even"), which("worse")];
      const named = worse.length > 0 ? ` (${worse.join(", ")})` : "";
      return `- against ${roundsText(baselines[other].rounds)}: ${better.length} better, ${even.length} even, ${worse.length} worse${named}`;
    });
  return `Of ${names.length} algorithms:\n\n${sentences.join("\n")}`;
}

function clipSection({ clipped, unclipped }: ClipResult): string {
  return `### The clip is in force

GRPO with four passes over every rollout: with the clip (ε 0.2) and without it, mean over the steps and seeds.

| | clip fraction | KL of sampled tokens per step |
| --- | --: | --: |
| clipped | ${clipped.clipFraction.toFixed(4)} | ${clipped.approxKl.toFixed(5)} |
| unclipped | 0 | ${unclipped.approxKl.toFixed(5)} |

`;
}
