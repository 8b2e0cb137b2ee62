/** What is learnt and how: domains with their levels, and ways to learn them. */
import { MultiTurnAgent, type TrainingOptions } from "stateset-agents";
import { booking, type DomainOptions, retail } from "stateset-agents/tools";

export const domains = {
  // The oracle's longest reply has 63 tokens, and 38 in the shop.
  booking: { environment: booking, systemPrompt: "You are a booking assistant.", maxTokens: 80 },
  retail: { environment: retail, systemPrompt: "You are a shop assistant.", maxTokens: 48 },
} as const;
export type DomainName = keyof typeof domains;
export type Level = 1 | 2 | 3;

/** How one learns. Whatever is not named is what train() and trainSupervised() do by themselves. */
export interface Way {
  what: string;
  /** By reinforcement, with these options. */
  train?: TrainingOptions & { credit?: "turn" | "state" };
  /** Times as many steps as the others. */
  longer?: number;
  /** The reward with its sign flipped. */
  flipped?: true;
  /** Before that: imitates so many conversations of the oracle. */
  oracle?: number;
  /** Imitates the best of as many conversations as GRPO samples, drawn in so many rounds. */
  harvest?: { rounds: number };
}

export const ways = {
  untrained: { what: "the model as it came" },
  grpo: { what: "GRPO as `train()` does it", train: {} },
  "grpo-long": { what: "the same, twice as many steps", train: {}, longer: 2 },
  flipped: { what: "GRPO with the reward's sign flipped", train: {}, flipped: true },
  "best-of-n": { what: "SFT on the best of as many conversations", harvest: { rounds: 1 } },
  "best-of-n-rounds": { what: "the same in five rounds, each from what the one before made", harvest: { rounds: 5 } },
  "sft-60": { what: "SFT on 60 conversations of the oracle", oracle: 60 },
  "sft-240": { what: "SFT on 240", oracle: 240 },
  "sft-960": { what: "SFT on 960", oracle: 960 },
  "sft-240-grpo": { what: "SFT on 240, then GRPO", oracle: 240, train: {} },
  "credit-turn": { what: 'GRPO, `credit: "turn"`', train: { credit: "turn" } },
  "credit-state": { what: 'GRPO, `credit: "state"`', train: { credit: "state" } },
  curriculum: { what: "GRPO, scenarios by measured difficulty", train: { sampler: { kind: "curriculum" } } },
} as const satisfies Record<string, Way>;
export type WayName = keyof typeof ways;

export interface Sizes {
  /** Of GRPO, of 4 groups of 8; the others sample as many conversations. */
  steps: number;
  trainingTasks: number;
  heldOutTasks: number;
  /** Updates of SFT on an oracle's conversations, and of each round of best-of-N. */
  updates: number;
  /** Share of the oracle's conversations. */
  demonstrations: number;
  /** Calls of the dialogues. Undefined: all. */
  calls?: number;
}

export const full: Sizes = { steps: 150, trainingTasks: 128, heldOutTasks: 64, updates: 100, demonstrations: 1 };
/** Of levels 2 and 3, whose conversations are longer. */
export const harder: Sizes = { ...full, steps: 75 };
/** To see that everything works: nothing is learnt in so few steps. */
export const quick: Sizes = {
  steps: 4,
  trainingTasks: 8,
  heldOutTasks: 20,
  updates: 4,
  demonstrations: 1 / 20,
  calls: 40,
};

export const sizesOf = ({ level, quick: small }: { level: Level; quick?: true }): Sizes =>
  small ? quick : level === 1 ? full : harder;

/** Samples of each held-out task: pass^4 is the share of tasks that all four solve. */
export const samples = 4;
export const groupsPerStep = 4;
export const groupSize = 8;

/** The oracle's longest ways take 4, 5 and 6 replies; much more room is room to go round in circles, which costs time. */
const maxTurns: Record<Level, number> = { 1: 6, 2: 8, 3: 10 };

export function environmentOf(domain: DomainName, level: Level, options: Pick<DomainOptions, "heldOut" | "tasks">) {
  return domains[domain].environment({ level, maxTurns: maxTurns[level], ...options });
}

/** What is measured a second time, with calls that are valid by construction. */
export const measuredConstrained: readonly WayName[] = ["untrained", "grpo"];

/** What is measured on calls of the dialogues too: "domain level way". */
export const measuredElsewhere: readonly string[] = ["retail 1 untrained", "retail 1 grpo"];

/** `model` undefined: the starter model, all of whose weights are trained. Of another an adapter is, unless it is used whole. */
export function agentOf(domain: DomainName, model: string | undefined, as?: "whole"): MultiTurnAgent {
  return new MultiTurnAgent({
    systemPrompt: domains[domain].systemPrompt,
    sampling: { maxTokens: domains[domain].maxTokens },
    threads: model === undefined || as === "whole" ? 1 : 2,
    ...(model !== undefined && { model, ...(as === undefined && { lora: true }) }),
  });
}
