/** The runs that thresholds were tuned on. */
import { CompositeReward } from "stateset-agents";
import { byKind, type Case, courteous, gaming, has, healthy, lasting, on, ruin, support, worth } from "./case.ts";
import { counting, perReply, quality, rightCall, within, words } from "./rewards.ts";
import { mixedLines, supportLines, toolLines } from "./scenarios.ts";

export const tuningCases: Record<string, Case> = {
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
};
