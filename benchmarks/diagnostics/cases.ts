/**
 * The runs. Half are healthy: what they are taught is what is wanted, and they learn it. Half are made ill, each in its own way; `expected`
 * holds the verdicts that name the illness. Thresholds were tuned on the cases of set "tuning" alone; those of set "proof" are of other
 * kinds and seeds, and were first run when the thresholds stood.
 */
import {
  CompositeReward,
  type Environment,
  type RewardFunction,
  rewardFunction,
  type TrainingOptions,
} from "stateset-agents";
import type { AlgorithmConfig } from "stateset-agents/algorithms";
import type { VerdictKind } from "stateset-agents/telemetry";
import { counting, perReply, quality, rightCall, within, words } from "./rewards.ts";
import { mixedLines, supportLines, toolLines, type Where } from "./scenarios.ts";

export interface Case {
  set: "tuning" | "proof";
  seed: number;
  environment: (where: Where) => Environment;
  reward: RewardFunction;
  /** What is measured before and after on held-out users. Left out: the reward itself. */
  wanted?: RewardFunction;
  settings?: TrainingOptions & Partial<AlgorithmConfig>;
  /** Empty: the run is healthy. */
  expected: readonly VerdictKind[];
}

/** What a user would choose for the starter model; the demo does. */
export const usual = {
  steps: 16,
  groupsPerStep: 4,
  groupSize: 8,
  learningRate: 2e-4,
  sampling: { temperature: 1, maxTokens: 32 },
} as const satisfies TrainingOptions;

const has = (pattern: RegExp) => (text: string) => pattern.test(text);
const brief = within(8, () => true);
const courteous = has(/\b(please|thank|thanks|sorry|happy to help|welcome)\b/i);
const support = (where: Where) => supportLines(where);
const healthy = { expected: [] } as const;
const gaming = ["reward-hacking", "repetition"] as const;
const ruin = ["divergence", "noise", "collapse"] as const;
/** A run that goes wrong for long, at a rate that does not fall: what is done about it has time to show. */
const lasting = { schedule: "constant", warmup: 0, steps: 24 } as const;

/** Rare users want the reply that the usual ones must not get. */
const byKind = (name: string, usualWants: (text: string) => boolean, of: "all" | "rare" = "all"): RewardFunction =>
  rewardFunction({ name }, ({ turns, scenario }) => {
    const rare = scenario?.topic === "rare";
    return of === "rare" && !rare ? 0 : Number(usualWants(turns.at(-1)!.content) !== rare);
  });

const worth = {
  brief: perReply("brief", brief),
  polite: perReply("polite", within(14, courteous)),
};
const on = { set: "tuning" } as const;
const proof = { set: "proof" } as const;

export const cases: Record<string, Case> = {
  // Healthy, for tuning.
  brief: { ...on, seed: 1, environment: support, reward: worth.brief, ...healthy },
  polite: { ...on, seed: 2, environment: support, reward: worth.polite, ...healthy },
  demo: {
    ...on,
    seed: 3,
    environment: (where) => supportLines(where, ["It is number 48213."]),
    reward: new CompositeReward([perReply("courteous", (text) => Number(courteous(text))), worth.brief]),
    ...healthy,
  },
  hello: {
    ...on,
    seed: 4,
    environment: support,
    reward: perReply("hello", within(3, has(/^(hello|hi)\b/i))),
    ...healthy,
  },
  "retail-call": {
    ...on,
    seed: 5,
    environment: (where) => toolLines(where, "retail"),
    reward: rightCall,
    settings: { learningRate: 5e-5, sampling: { maxTokens: 40 } },
    ...healthy,
  },
  // Was of the proof until its quotation marks were taken for repetition.
  "library-call": {
    ...on,
    seed: 25,
    environment: (where) => toolLines(where, "library"),
    reward: rightCall,
    settings: { learningRate: 5e-5, sampling: { maxTokens: 40 } },
    ...healthy,
  },
  "clinic-call": {
    ...on,
    seed: 25,
    environment: (where) => toolLines(where, "clinic"),
    reward: rightCall,
    settings: { learningRate: 5e-5, sampling: { maxTokens: 40 } },
    ...healthy,
  },
  question: { ...on, seed: 6, environment: support, reward: perReply("question", within(10, has(/\?$/))), ...healthy },
  long: {
    ...on,
    seed: 7,
    environment: support,
    reward: perReply("long", (text) => (/[.!?]$/.test(text) ? Math.min(1, words(text).length / 24) : 0)),
    settings: { sampling: { maxTokens: 48 } },
    ...healthy,
  },
  "ppo-brief": {
    ...on,
    seed: 8,
    environment: support,
    reward: worth.brief,
    settings: { algorithm: "ppo" },
    ...healthy,
  },

  // Ill, for tuning.
  "temperature-3": {
    ...on,
    seed: 1,
    environment: support,
    reward: worth.brief,
    settings: { sampling: { temperature: 3 } },
    expected: ["noise"],
  },
  "rate-x100": {
    ...on,
    seed: 2,
    environment: support,
    reward: worth.polite,
    wanted: quality(),
    settings: { ...lasting, learningRate: 1e-2 },
    expected: ruin,
  },
  "courteous-words": {
    ...on,
    seed: 3,
    environment: support,
    reward: counting("courteous-words", /\b(please|thank|thanks|sorry|welcome|happy|glad)\b/g, 12),
    wanted: quality(),
    settings: { ...lasting, learningRate: 4e-4 },
    expected: gaming,
  },
  "word-count": {
    ...on,
    seed: 4,
    environment: support,
    reward: perReply("word-count", (text) => words(text).length / 40),
    wanted: quality(),
    settings: { ...lasting, learningRate: 4e-4 },
    expected: gaming,
  },
  "self-imitation": {
    ...on,
    seed: 5,
    environment: support,
    reward: perReply("always", () => 1),
    wanted: quality(),
    settings: { algorithm: "reinforce", baseline: "none", learningRate: 1e-3 },
    expected: ["collapse", "divergence", "no-signal"],
  },
  "brief-not-polite": {
    ...on,
    seed: 6,
    environment: support,
    reward: new CompositeReward([
      perReply(
        "brief",
        within(4, () => true),
        0.9,
      ),
      perReply("polite", (text) => Number(courteous(text)), 0.1),
    ]),
    wanted: perReply("polite", (text) => Number(courteous(text))),
    expected: gaming,
  },
  "critic-rate": {
    ...on,
    seed: 7,
    environment: support,
    reward: worth.polite,
    settings: { algorithm: "ppo", valueLearningRate: 0.3 },
    expected: ["critic"],
  },
  "lost-statements": {
    ...on,
    seed: 8,
    environment: (where) => mixedLines(where, ["package", "refund", "subscription", "email"]),
    reward: byKind("question-unless-rare", has(/\?/)),
    wanted: byKind("rare", has(/\?/), "rare"),
    settings: { learningRate: 1.5e-4, groupsPerStep: 8 },
    expected: ["lost-scenarios"],
  },

  // Healthy, for the proof.
  apology: {
    ...proof,
    seed: 21,
    environment: support,
    reward: perReply("apology", within(12, has(/sorry/i))),
    ...healthy,
  },
  "your-word": {
    ...proof,
    seed: 22,
    environment: support,
    reward: rewardFunction({ name: "your-word" }, ({ turns, scenario }) =>
      within(12, (text) => text.toLowerCase().includes(scenario!.id))(turns.at(-1)!.content, "", 0),
    ),
    ...healthy,
  },
  offer: {
    ...proof,
    seed: 23,
    environment: support,
    reward: perReply("offer", within(12, has(/\b(can|could|let me|will)\b/i))),
    ...healthy,
  },
  letters: {
    ...proof,
    seed: 24,
    environment: support,
    reward: perReply("letters", within(10, has(/^[a-m]/i))),
    ...healthy,
  },
  agree: {
    ...proof,
    seed: 25,
    environment: support,
    reward: perReply("agree", within(14, has(/^(sure|okay|ok|alright|certainly|yes)\b/i))),
    settings: { algorithm: "cispo" },
    ...healthy,
  },
  "ask-then-thank": {
    ...proof,
    seed: 26,
    environment: (where) => supportLines(where, ["Yes, that is right."]),
    reward: perReply(
      "ask-then-thank",
      within(12, (text, _, reply) => (reply === 0 ? /\?/ : /thank/i).test(text)),
    ),
    ...healthy,
  },
  "what-question": {
    ...proof,
    seed: 27,
    environment: support,
    reward: perReply("what-question", within(8, has(/^(what|which)\b/i))),
    settings: { algorithm: "rloo" },
    ...healthy,
  },
  "first-person": {
    ...proof,
    seed: 28,
    environment: support,
    reward: perReply("first-person", within(12, has(/^I\b/))),
    settings: { algorithm: "dapo" },
    ...healthy,
  },
  "one-sentence": {
    ...proof,
    seed: 29,
    environment: support,
    reward: perReply("one-sentence", (text) => Number(/^[^.!?]+[.!?]$/.test(text))),
    settings: { algorithm: "gspo" },
    ...healthy,
  },
  "a2c-statement": {
    ...proof,
    seed: 30,
    environment: support,
    reward: perReply("statement", within(10, has(/\.$/))),
    settings: { algorithm: "a2c" },
    ...healthy,
  },
  explain: {
    ...proof,
    seed: 31,
    environment: support,
    reward: perReply("explain", (text) => (/[.!?]$/.test(text) ? 0.5 + 0.5 * Number(words(text).length > 15) : 0)),
    settings: { algorithm: "reinforce++", sampling: { maxTokens: 48 } },
    ...healthy,
  },
  "two-passes": {
    ...proof,
    seed: 32,
    environment: support,
    reward: perReply("you", within(10, has(/\byou(r)?\b/i))),
    settings: { updatesPerRollout: 2 },
    ...healthy,
  },

  // Ill, for the proof.
  "temperature-2.5": {
    ...proof,
    seed: 41,
    environment: (where) => toolLines(where, "library"),
    reward: rightCall,
    settings: { sampling: { temperature: 2.5, maxTokens: 40 } },
    expected: ["noise"],
  },
  "rate-x30": {
    ...proof,
    seed: 42,
    environment: support,
    reward: worth.brief,
    wanted: quality(),
    settings: { ...lasting, learningRate: 3e-3, algorithm: "rloo" },
    expected: ruin,
  },
  "forty-passes": {
    ...proof,
    seed: 43,
    environment: support,
    reward: worth.polite,
    wanted: quality(),
    settings: {
      algorithm: "reinforce++",
      epsilonLow: 0.999,
      epsilonHigh: 100,
      updatesPerRollout: 40,
      learningRate: 1e-3,
      steps: 8,
    },
    expected: ruin,
  },
  "exclamation-marks": {
    ...proof,
    seed: 44,
    environment: support,
    reward: counting("exclamation-marks", /!/g, 10),
    wanted: quality(),
    settings: { ...lasting, learningRate: 4e-4 },
    expected: gaming,
  },
  "number-stuffing": {
    ...proof,
    seed: 45,
    environment: support,
    reward: counting("number-stuffing", /\d/g, 16),
    wanted: quality(),
    settings: { ...lasting, learningRate: 4e-4 },
    expected: gaming,
  },
  commas: {
    ...proof,
    seed: 46,
    environment: (where) => supportLines(where, ["And then?"]),
    reward: counting("commas", /,|\band\b/g, 8),
    wanted: quality(),
    settings: { ...lasting, learningRate: 4e-4, algorithm: "gspo" },
    expected: gaming,
  },
  "nothing-said": {
    ...proof,
    seed: 47,
    environment: support,
    reward: perReply("nothing-said", (text) => 1 - Math.min(1, words(text).length / 20)),
    wanted: quality(),
    settings: { ...lasting, learningRate: 4e-4 },
    expected: gaming,
  },
  "statement-not-help": {
    ...proof,
    seed: 48,
    environment: support,
    reward: new CompositeReward([
      perReply("statement", (text) => Number(!text.includes("?")), 0.8),
      perReply("asks", (text) => Number(text.includes("?")), 0.2),
    ]),
    wanted: perReply("asks", (text) => Number(text.includes("?"))),
    expected: gaming,
  },
  "lost-plainness": {
    ...proof,
    seed: 49,
    environment: (where) => mixedLines(where, ["order", "card", "package", "jacket"]),
    reward: byKind("courteous-unless-rare", courteous),
    wanted: byKind("rare", courteous, "rare"),
    settings: { learningRate: 1.5e-4, groupsPerStep: 8 },
    expected: ["lost-scenarios"],
  },
  "a2c-critic-rate": {
    ...proof,
    seed: 50,
    environment: support,
    reward: worth.brief,
    settings: { algorithm: "a2c", valueLearningRate: 0.3 },
    expected: ["critic"],
  },
  hopeless: {
    ...proof,
    seed: 51,
    environment: support,
    reward: perReply("hopeless", (text) => Number(/\bzebra\b/i.test(text))),
    expected: ["no-signal"],
  },
  "drilled-in": {
    ...proof,
    seed: 52,
    environment: support,
    reward: perReply("drilled-in", (text) => 1 + 0.01 * words(text).length),
    wanted: quality(),
    settings: { algorithm: "reinforce", baseline: "none", learningRate: 2e-3 },
    expected: ruin,
  },
};
