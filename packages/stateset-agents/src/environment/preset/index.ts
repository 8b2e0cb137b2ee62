import { ConversationEnvironment, type ConversationEnvironmentOptions } from "../conversation-environment.ts";
import { customerServiceHeldOut, customerServiceTrain } from "./customer-service.ts";
import { salesHeldOut, salesTrain } from "./sales.ts";
import { technicalSupportHeldOut, technicalSupportTrain } from "./technical-support.ts";

/** Options of the preset environments, to spread and change: `new ConversationEnvironment({ ...conversationConfigs.sales, maxTurns: 2 })`. */
export const conversationConfigs = {
  customerService: { scenarios: customerServiceTrain, maxTurns: 6 },
  technicalSupport: { scenarios: technicalSupportTrain, maxTurns: 6 },
  sales: { scenarios: salesTrain, maxTurns: 6 },
} as const satisfies Record<string, ConversationEnvironmentOptions>;

/** The same domains in phrasings that training does not see: for evaluation. */
export const heldOutConfigs = {
  customerService: { scenarios: customerServiceHeldOut, maxTurns: 6 },
  technicalSupport: { scenarios: technicalSupportHeldOut, maxTurns: 6 },
  sales: { scenarios: salesHeldOut, maxTurns: 6 },
} as const satisfies Record<keyof typeof conversationConfigs, ConversationEnvironmentOptions>;

export interface PresetOptions extends Partial<ConversationEnvironmentOptions> {
  /** Take the phrasings kept apart for evaluation. Default false. */
  heldOut?: boolean | undefined;
}

const preset =
  (name: keyof typeof conversationConfigs) =>
  ({ heldOut = false, ...options }: PresetOptions = {}): ConversationEnvironment =>
    new ConversationEnvironment({ ...(heldOut ? heldOutConfigs : conversationConfigs)[name], ...options });

/** Late orders, refunds, returns, billing, cancelling. */
export const customerService = preset("customerService");
/** Crashes, freezing, passwords and accounts. */
export const technicalSupport = preset("technicalSupport");
/** Prices, plans, discounts, delivery and stock. */
export const sales = preset("sales");
