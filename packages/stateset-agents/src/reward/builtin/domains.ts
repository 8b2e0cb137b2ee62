import { MultiObjectiveReward, type Objective } from "../multi-objective-reward.ts";
import type { RewardOptions } from "../reward-function.ts";
import { ConcisenessReward } from "./conciseness.ts";
import { EngagementReward } from "./engagement.ts";
import { HelpfulnessReward } from "./helpfulness.ts";
import { PolitenessReward } from "./politeness.ts";
import { SafetyReward } from "./safety.ts";
import { SimilarityAwareReward } from "./similarity-aware.ts";

/** What counts in each domain, and how much. */
export const domainObjectives = {
  customerService: [
    { name: "helpfulness", reward: new HelpfulnessReward(), weight: 0.35 },
    { name: "politeness", reward: new PolitenessReward(), weight: 0.3 },
    { name: "conciseness", reward: new ConcisenessReward(), weight: 0.2 },
    { name: "safety", reward: new SafetyReward(), weight: 0.15 },
  ],
  technicalSupport: [
    { name: "helpfulness", reward: new HelpfulnessReward(), weight: 0.5 },
    { name: "similarity", reward: new SimilarityAwareReward(), weight: 0.15 },
    { name: "conciseness", reward: new ConcisenessReward({ maxWords: 40 }), weight: 0.1 },
    { name: "politeness", reward: new PolitenessReward(), weight: 0.1 },
    { name: "safety", reward: new SafetyReward(), weight: 0.15 },
  ],
  sales: [
    { name: "engagement", reward: new EngagementReward(), weight: 0.35 },
    { name: "helpfulness", reward: new HelpfulnessReward(), weight: 0.25 },
    { name: "politeness", reward: new PolitenessReward(), weight: 0.15 },
    { name: "conciseness", reward: new ConcisenessReward({ maxWords: 30 }), weight: 0.1 },
    { name: "safety", reward: new SafetyReward(), weight: 0.15 },
  ],
} as const satisfies Record<string, readonly Objective[]>;

const domain =
  (name: keyof typeof domainObjectives) =>
  (options: RewardOptions = {}): MultiObjectiveReward =>
    new MultiObjectiveReward({ name, ...options, objectives: domainObjectives[name] });

/** Heuristic: courteous, brief replies that move the matter forward. */
export const createCustomerServiceReward = domain("customerService");
/** Heuristic: concrete steps first; longer replies are fine, repeating the same step is not. */
export const createTechnicalSupportReward = domain("technicalSupport");
/** Heuristic: replies that keep the customer talking, helpful and courteous. */
export const createSalesReward = domain("sales");
