/** The demo's task in its single-turn form: an opener, one reply, the demo's reward. The same for both sides. */
import { ConversationEnvironment, type Message, type RewardFunction } from "stateset-agents";
import { demoEnvironment, demoReward, demoSettings } from "../../packages/stateset-agents/src/cli/demo/parts.ts";
import type { TokenChain, Turn } from "../../packages/stateset-agents/src/conversation/trajectory.ts";
import type { ChatTokenizer } from "../../packages/stateset-agents/src/policy/policy.ts";
import type { ReferenceScorer } from "../../packages/stateset-agents/src/reward/reference-scorer.ts";
import { ScenarioOrder } from "../../packages/stateset-agents/src/training/scenario-order.ts";

/** The mean reward of so many consecutive steps that ends a training. */
export const target = 0.9;
export const window = 3;
/** A training that has not reached it by then has failed. */
export const maxSteps = 120;

/**
 * The demo's rate and group sizes. Constant: a rate that falls over a number of steps would make the way depend on when it is stopped.
 * Without recall, which TRL does not have.
 */
export const settings = {
  groupsPerStep: demoSettings.groupsPerStep,
  groupSize: demoSettings.groupSize,
  learningRate: demoSettings.learningRate,
  schedule: "constant",
  warmup: 0,
  recall: false,
} as const;

/** Each of the demo's training scenarios, ended after the reply to its opener. */
export function environment(): ConversationEnvironment {
  const scenarios = demoEnvironment({ heldOut: false }).scenarios.map(({ id, userResponses }) => ({
    id,
    userResponses: [userResponses[0]!],
  }));
  return new ConversationEnvironment({ scenarios, maxTurns: 1 });
}

/** The openers in the order in which train() draws them with this seed. */
export function openers(seed: number, steps: number): string[] {
  const draw = new ScenarioOrder(environment().scenarios, seed).weightedBy({});
  return Array.from({ length: steps * settings.groupsPerStep }, (_, i) => String(draw(i).userResponses[0]));
}

export interface Reply {
  prompt: readonly Message[];
  text: string;
  tokens: readonly number[];
}

/** The reward of replies that another program sampled, those to one prompt being a group, as train() computes it for its own. */
export async function rewardsOf(
  replies: readonly Reply[],
  { reward, scorer, tokenizer }: { reward: RewardFunction; scorer: ReferenceScorer; tokenizer: ChatTokenizer },
): Promise<number[]> {
  const conversations = replies.map(({ prompt, text, tokens }) => {
    const { tokens: start } = tokenizer.extend(undefined, prompt, { addGenerationPrompt: true });
    const turns: Turn[] = [...prompt, { role: "assistant", content: text }];
    const all = Int32Array.from([...start, ...tokens]);
    const chain: TokenChain = {
      tokens: all,
      logprobs: new Float32Array(all.length),
      learn: Uint8Array.from(all, (_, i) => (i < start.length ? 0 : 1)),
      turn: Int32Array.from(all, (_, i) => (i < start.length ? -1 : prompt.length)),
    };
    return { turns, chains: [chain] };
  });
  const scores: number[] = [];
  for (let first = 0; first < replies.length; first += settings.groupSize) {
    const group = conversations.slice(first, first + settings.groupSize);
    const score = scorer.forGroup(group);
    const results = await Promise.all(group.map(({ turns }) => reward.compute({ turns }, { score })));
    scores.push(...results.map((result) => result.score));
  }
  return scores;
}

export { demoReward as reward };
