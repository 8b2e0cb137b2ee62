/** What the Python system calls by a domain's name, made of the presets and rewards that are here. */
import type { AgentOptions } from "../agent/agent-options.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { conversationConfigs, heldOutConfigs, type PresetOptions } from "../environment/preset/index.ts";
import { domainObjectives } from "../reward/builtin/domains.ts";
import { MultiObjectiveReward } from "../reward/multi-objective-reward.ts";
import type { RewardOptions } from "../reward/reward-function.ts";

/**
 * A MultiTurnAgent that is told it works in customer support, unless it is given another system prompt. The model may stand alone.
 *
 * @example new CustomerServiceAgent("Qwen/Qwen3-0.6B");
 */
export class CustomerServiceAgent extends MultiTurnAgent {
  constructor(options: string | AgentOptions = {}) {
    const given = typeof options === "string" ? { model: options } : options;
    super({ ...given, systemPrompt: given.systemPrompt ?? "You are a helpful customer support agent." });
  }
}

/** The environment that `customerService()` makes. */
export class CustomerServiceEnvironment extends ConversationEnvironment {
  constructor({ heldOut = false, ...options }: PresetOptions = {}) {
    super({ ...(heldOut ? heldOutConfigs : conversationConfigs).customerService, ...options });
  }
}

/** Heuristic: the scores of `createCustomerServiceReward()`. */
export class CustomerServiceReward extends MultiObjectiveReward {
  constructor(options: RewardOptions = {}) {
    super({ name: "customerService", ...options, objectives: domainObjectives.customerService });
  }
}

/** Heuristic: the scores of `createTechnicalSupportReward()`. */
export class TechnicalSupportReward extends MultiObjectiveReward {
  constructor(options: RewardOptions = {}) {
    super({ name: "technicalSupport", ...options, objectives: domainObjectives.technicalSupport });
  }
}

/** Heuristic: the scores of `createSalesReward()`. */
export class SalesAssistantReward extends MultiObjectiveReward {
  constructor(options: RewardOptions = {}) {
    super({ name: "sales", ...options, objectives: domainObjectives.sales });
  }
}
