/**
 * `npm run bench:preference`: DPO on pairs against the base model, and a reward model against simple baselines, both on held-out data.
 * --json (last line: one object), --rows N (reward-model training rows), --quick, --no-write. Taskmaster parts are skipped when the data is absent.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import {
  createRandom,
  evaluate,
  evaluatePreference,
  MultiTurnAgent,
  type PreferenceEvaluation,
  type PreferencePair,
  pairsFromGroups,
  type RunCallbacks,
  seedOf,
  trainPreference,
} from "stateset-agents";
import { encodeConversation } from "stateset-agents/policy";
import { NeuralRewardTrainer } from "stateset-agents/rewards";
import { calibration } from "../../packages/stateset-agents/src/algorithm/loss/bradley-terry.ts";
import { estimateText } from "../estimate.ts";
import { describeMachine } from "../machine.ts";
import { bagOfWords, lengthOnly, logisticRegression } from "./baseline.ts";
import { environmentOf, PoliteAndShort, systemPrompt } from "./support-task.ts";
import { pairsOf, type Row, readTaskmaster, splitByDialogue } from "./taskmaster.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    rows: { type: "string", default: "1000" },
    quick: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
/** How much of a conversation the reward model reads; a pair of more tokens than `pairTokens` is left to larger machines. */
const readTokens = 128;
const pairTokens = 384;
const say = (text: string) => console.error(text);
const rows = readTaskmaster();
if (!rows)
  say("The Taskmaster reward data is not next to the checkout (or there is no xz command): those parts are skipped.");

const dpo = await measureDpo(rows);
const reward = rows && (await measureReward(rows));
const report = page();
console.log(report);
if (flags.write) {
  mkdirSync(new URL("../../docs/", import.meta.url), { recursive: true });
  writeFileSync(new URL("../../docs/results/preference.md", import.meta.url), report);
}
if (flags.json) console.log(JSON.stringify({ dpo, ...(reward && { reward }) }));

/** On held-out pairs: how often the chosen side is the likelier one per token, before and after, and DPO's own accuracy. */
interface PairScores {
  pairs: number;
  before: number;
  after: number;
  accuracy: number;
}

async function measureDpo(taskmaster: readonly Row[] | undefined) {
  const agent = new MultiTurnAgent({ systemPrompt, sampling: { temperature: 1, maxTokens: 48 } });
  await agent.initialize();
  const samples = flags.quick ? 8 : 32;
  const sample = async (which: "train" | "heldOut") => {
    const environment = environmentOf(which);
    const { groups, reward: score } = await evaluate({
      agent,
      environment,
      reward: new PoliteAndShort(),
      samples,
      seed: seedOf(which),
    });
    // Evaluations do not mark their tokens for learning; these are to be learnt from.
    for (const chain of groups.flatMap((group) => group.trajectories.flatMap(({ chains }) => chains))) {
      chain.learn = Uint8Array.from(chain.turn, (turn) => (turn >= 0 ? 1 : 0));
    }
    return { score, pairs: pairsFromGroups(groups, { perGroup: 8, minGap: 0.2 }) };
  };
  say("DPO: sampling pairs …");
  const sampled = await sample("train");
  const heldOut = await sample("heldOut");
  const short = (pair: PreferencePair) =>
    encodeConversation(agent.policy.tokenizer, { messages: [...pair.prompt, ...pair.chosen] }).tokens.length <=
    pairTokens;
  const human = taskmaster && splitByDialogue(pairsOf(taskmaster).filter(short), (pair) => pair.dialogue, 4);
  const sets = { samples: heldOut.pairs, ...(human && { taskmaster: human.heldOut.map(plain) }) };
  const score = async () => {
    const scores: [string, PreferenceEvaluation][] = [];
    for (const [name, some] of Object.entries(sets)) scores.push([name, await evaluatePreference(agent.policy, some)]);
    return scores;
  };
  const before = Object.fromEntries(await score());
  const pairs = [...sampled.pairs, ...(human?.train ?? []).map(plain)];
  say(
    `DPO: ${sampled.pairs.length} sampled and ${pairs.length - sampled.pairs.length} Taskmaster pairs to learn from.`,
  );
  const started = performance.now();
  const result = await trainPreference({
    agent,
    pairs,
    epochs: 2,
    batchSize: 16,
    learningRate: 3e-5,
    dir: false,
    callbacks: sayEveryTen("DPO"),
  });
  const seconds = (performance.now() - started) / 1000;
  const heldOutScores: Record<string, PairScores> = {};
  for (const [name, after] of await score()) {
    const { pairs: count, accuracy, likelierChosen } = after;
    heldOutScores[name] = { pairs: count, before: before[name]!.likelierChosen, after: likelierChosen, accuracy };
  }
  const { score: rewardAfter } = await sample("heldOut");
  await agent.close();
  return {
    trainPairs: result.pairs,
    dropped: result.dropped,
    seconds,
    heldOut: heldOutScores,
    reward: { before: heldOut.score, after: rewardAfter },
  };
}

function sayEveryTen(what: string): RunCallbacks {
  return {
    onStepEnd({ step, totalSteps, metrics }) {
      if (step % 10 === 0) say(`${what}: step ${step} of ${totalSteps}, loss ${metrics.loss?.toFixed(3)}`);
    },
  };
}

function plain<T extends { dialogue: string }>({ dialogue: _, ...pair }: T): Omit<T, "dialogue"> {
  return pair;
}

interface Scores {
  accuracy: number;
  /** Accuracy inside one source alone: the two differ so much in how often they are good that knowing the source is half the answer. */
  bySource: Record<string, number>;
  ece?: number;
}

async function measureReward(all: readonly Row[]) {
  const split = splitByDialogue(all, (row) => row.dialogue, 6);
  const used = createRandom(0)
    .shuffled(split.train)
    .slice(0, flags.quick ? 100 : Number(flags.rows));
  const heldOut = createRandom(1)
    .shuffled(split.heldOut)
    .slice(0, flags.quick ? 100 : 600);
  say(`Reward model: ${used.length} rows to learn from, ${heldOut.length} held out.`);
  const started = performance.now();
  const { reward } = await new NeuralRewardTrainer({
    examples: used.map((row) => ({ messages: [...row.context, row.reply], good: row.good })),
    maxTokens: readTokens,
    epochs: 2,
    batchSize: 16,
    learningRate: 1e-4,
    dir: false,
    callbacks: sayEveryTen("Reward model"),
  }).train();
  const seconds = (performance.now() - started) / 1000;
  const raw = await reward.rawScores(heldOut.map((row) => [...row.context, row.reply]));
  await reward.close();
  // A label is a comparison with the anchor, whose reward is 0.
  const { expectedError } = calibration(
    heldOut.map((row, i) => (row.good ? { chosen: raw[i]!, rejected: 0 } : { chosen: 0, rejected: raw[i]! })),
  );
  const majority = used.filter((row) => row.good).length * 2 > used.length;
  const same = { length: logisticRegression(used, lengthOnly), words: logisticRegression(used, bagOfWords) };
  const allWords = logisticRegression(split.train, bagOfWords);
  const scores: Record<string, Scores> = {
    "always the commoner label": scoreOf(heldOut, () => majority),
    "length only": scoreOf(heldOut, (row) => same.length(row) > 0.5),
    "bag of words": scoreOf(heldOut, (row) => same.words(row) > 0.5),
    "reward model": { ...scoreOf(heldOut, (_, i) => raw[i]! > 0), ece: expectedError },
    [`bag of words, all ${split.train.length} rows`]: scoreOf(heldOut, (row) => allWords(row) > 0.5),
  };
  return { trainRows: used.length, heldOutRows: heldOut.length, seconds, scores };
}

function scoreOf(rows: readonly Row[], isGood: (row: Row, index: number) => boolean): Scores {
  const right = rows.map((row, i) => ({ source: row.source, hit: isGood(row, i) === row.good ? 1 : 0 }));
  const mean = (hits: readonly { hit: number }[]) => hits.reduce((sum, { hit }) => sum + hit, 0) / hits.length;
  const sources = [...new Set(rows.map((row) => row.source))].sort();
  return {
    accuracy: mean(right),
    bySource: Object.fromEntries(sources.map((source) => [source, mean(right.filter((one) => one.source === source))])),
  };
}

function page(): string {
  const percent = (value: number) => `${(100 * value).toFixed(1)}%`;
  const dpoRows = Object.entries(dpo.heldOut).map(
    ([name, s]) => `| ${name} | ${s.pairs} | ${percent(s.before)} | ${percent(s.after)} | ${percent(s.accuracy)} |`,
  );
  const rewardRows = Object.entries(reward?.scores ?? {}).map(([name, s]) => {
    const sources = Object.values(s.bySource).map(percent).join(" | ");
    return `| ${name} | ${percent(s.accuracy)} | ${sources} | ${s.ece === undefined ? "" : s.ece.toFixed(3)} |`;
  });
  return `# Learning from preferences, measured

Written by \`npm run bench:preference\` on ${describeMachine()}.

## DPO against the base model

The starter model learns from ${dpo.trainPairs} pairs: replies it sampled itself, ranked by a reward that code checks (polite and short), and Taskmaster
contexts (of at most ${pairTokens} tokens) for which people called one reply good and another bad. Held-out pairs come from other openings and other dialogues.
*likelier*: how often the better reply has the higher probability per token. *DPO accuracy*: how often the better one gained more over the base model.

| held-out pairs | count | likelier, base | likelier, after DPO | DPO accuracy |
| --- | --: | --: | --: | --: |
${dpoRows.join("\n")}

Reward of fresh replies to the held-out openings: ${estimateText(dpo.reward.before)} before, ${estimateText(dpo.reward.after)} after (95% intervals).
Training took ${dpo.seconds.toFixed(0)} s.

## Reward model against simple baselines
${
  reward
    ? `
Trained on ${reward.trainRows} labelled Taskmaster replies and measured on ${reward.heldOutRows} of other dialogues; the last ${readTokens} tokens
of each conversation are read. The two sources differ in how often a reply is good, so accuracy inside each source says more than the total.

| | accuracy | ${Object.keys(Object.values(reward.scores)[0]!.bySource).join(" | ")} | calibration error |
| --- | --: | ${Object.keys(Object.values(reward.scores)[0]!.bySource)
        .map(() => "--:")
        .join(" | ")} | --: |
${rewardRows.join("\n")}

With so many rows the standard error of an accuracy is about ${(50 / Math.sqrt(reward.heldOutRows)).toFixed(1)} points at most. Training took ${reward.seconds.toFixed(0)} s.
`
    : "\nThe Taskmaster data was not there.\n"
}`;
}
