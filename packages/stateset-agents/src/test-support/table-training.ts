/** Small parts for training tests on the table policy. */
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { RewardResult, Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { type RewardContext, RewardFunction, type RewardInput } from "../reward/reward-function.ts";
import { createTablePolicy, type TablePolicy, type TablePolicyOptions } from "./table-policy.ts";

export const tableScenarios = ["refund order", "card broken", "order late", "help order"].map((text, index) => ({
  id: `scenario-${index}`,
  userResponses: [text, "ok really", "thanks well"],
}));

export function tableEnvironment(): ConversationEnvironment {
  return new ConversationEnvironment({ scenarios: tableScenarios, maxTurns: 3 });
}

export function tableAgent(options: TablePolicyOptions = {}): { agent: MultiTurnAgent; policy: TablePolicy } {
  const policy = createTablePolicy(options);
  return { policy, agent: new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } }) };
}

/** A reward from a plain function over the turns. */
export class FunctionReward extends RewardFunction {
  readonly #score: (turns: readonly Turn[], input: RewardInput, context?: RewardContext) => number | Promise<number>;
  constructor(
    score: (turns: readonly Turn[], input: RewardInput, context?: RewardContext) => number | Promise<number>,
  ) {
    super({ name: "function" });
    this.#score = score;
  }
  override async compute(input: RewardInput, context?: RewardContext): Promise<RewardResult> {
    const score = await this.#score(input.turns, input, context);
    return { score, breakdown: { function: score } };
  }
}

/** Share of replies that say "please". */
export function politeShare(turns: readonly Turn[]): number {
  const replies = turns.filter((turn) => turn.role === "assistant");
  return replies.filter((turn) => turn.content.includes("please")).length / Math.max(1, replies.length);
}

/** Options of a short run that learns, of which nothing is kept. */
export const quickRun = {
  environment: tableEnvironment(),
  dir: false,
  steps: 10,
  learningRate: 0.3,
  schedule: "constant",
  warmup: 0,
} as const;

/** How much higher a curve ends than it began, by the means of three points. */
export function gain(curve: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
  return mean(curve.slice(-3)) - mean(curve.slice(0, 3));
}
