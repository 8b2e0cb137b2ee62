/**
 * No heuristic may be pleased by text that nobody would say. A search over words tries to, one that sees the log-probs; `npm run soak`
 * gives one that sees the reward alone twenty times as long. With that much time and the log-probs, a search does get past a reference as
 * small as the starter model: "Your order is chair. Thank you." scored 1 for safety after 4,000 tries.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPolicy } from "../../policy/open-policy.ts";
import type { Policy } from "../../policy/policy.ts";
import { attackGuarded, attackWords, chat } from "../../test-support/word-adversary.ts";
import { createReferenceScorer, type ReferenceScorer } from "../reference-scorer.ts";
import type { RewardFunction } from "../reward-function.ts";
import { ConcisenessReward } from "./conciseness.ts";
import { createCustomerServiceReward, createSalesReward, createTechnicalSupportReward } from "./domains.ts";
import { EngagementReward } from "./engagement.ts";
import { HelpfulnessReward } from "./helpfulness.ts";
import { PolitenessReward } from "./politeness.ts";
import { SafetyReward } from "./safety.ts";
import { TaskCompletionReward } from "./task-completion.ts";

const soak = process.env.STATESET_SOAK === "1";
const rounds = soak ? 500 : 25;
const tries = soak ? 20_000 : 1500;

const users = ["My order is two weeks late and I want a refund.", "The order number is 48213. How long will it take?"];
const honest: string[][] = [
  ["I am sorry about that. Which order is it?", "Thank you. The refund takes 5 to 7 days."],
  ["I am sorry to hear that. What is your order number?", "Thank you for the number. The refund takes 3 days."],
  ["Sorry about that. What is the order number?", "Thank you. It will take about five days."],
];
const rewards: [name: string, reward: RewardFunction][] = [
  ["politeness", new PolitenessReward()],
  ["conciseness", new ConcisenessReward()],
  ["helpfulness", new HelpfulnessReward()],
  ["engagement", new EngagementReward()],
  ["safety", new SafetyReward()],
  ["task completion", new TaskCompletionReward({ criteria: ["refund", /\bdays?\b|\bweek\b/, "order"] })],
  ["customer service", createCustomerServiceReward()],
  ["technical support", createTechnicalSupportReward()],
  ["sales", createSalesReward()],
];

describe("a search over words", { timeout: soak ? 7_200_000 : 300_000 }, () => {
  let policy: Policy;
  let scorer: ReferenceScorer;
  beforeAll(async () => {
    policy = await openPolicy({ threads: 1 });
    scorer = createReferenceScorer(policy);
  });
  afterAll(async () => {
    await scorer.close();
    await policy.close();
  });

  it.each(rewards)("does not beat honest conversations: %s", async (name, reward) => {
    const score = scorer.forGroup([]);
    const scores = await Promise.all(
      honest.map(async (replies) => (await reward.compute({ turns: chat(users, replies) }, { score })).score),
    );
    const attack = { reward, users, seed: 7 };
    // The words alone let salad through: that is where the guarded search begins, beside words at random.
    const words = await attackWords(attack, tries);
    expect(words.score).toBeGreaterThanOrEqual(Math.min(...scores));
    for (const start of [words.replies, undefined]) {
      const found = await attackGuarded({ ...attack, start }, { policy, scorer, rounds, blind: soak });
      const least = Math.min(...scores);
      const what = `${name}: ${found.score.toFixed(3)} of ${least.toFixed(3)} by ${JSON.stringify(found.replies.join(" | "))}`;
      if (soak) process.stdout.write(`${what}\n`);
      expect(found.score, what).toBeLessThan(0.85 * least);
    }
  });

  it("is not what honest conversations are: they lose nothing by the guard", async () => {
    const score = scorer.forGroup([]);
    for (const [name, reward] of rewards) {
      for (const replies of honest) {
        const turns = chat(users, replies);
        const guarded = (await reward.compute({ turns }, { score })).score;
        expect(guarded, `${name}: ${replies.join(" | ")}`).toBe((await reward.compute({ turns }, { warn() {} })).score);
        expect(guarded).toBeGreaterThan(0.6);
      }
    }
  });

  it.each([
    "Please card please refund tree i not when.",
    "Thank you order refund will days card sorry.",
    "I am sorry about that. Tree card refund please not when. Which order is it?",
  ])("that has found %j has found nothing", async (reply) => {
    const score = scorer.forGroup([]);
    for (const [name, reward] of rewards) {
      const turns = chat(users, [reply, reply.replace(/order|refund/, "number")]);
      // Similarity, a sixth of technical support, asks for no language.
      expect((await reward.compute({ turns }, { score })).score, name).toBeLessThan(0.2);
    }
  });
});
