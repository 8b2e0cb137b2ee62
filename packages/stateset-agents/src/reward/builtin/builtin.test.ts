import { describe, expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import { CompositeReward } from "../composite-reward.ts";
import type { RewardFunction, RewardInput } from "../reward-function.ts";
import { ConcisenessReward } from "./conciseness.ts";
import { CorrectnessReward } from "./correctness.ts";
import { createCustomerServiceReward, createSalesReward, createTechnicalSupportReward } from "./domains.ts";
import { EngagementReward } from "./engagement.ts";
import { HelpfulnessReward } from "./helpfulness.ts";
import { isPolite, PolitenessReward } from "./politeness.ts";
import { SafetyReward } from "./safety.ts";
import { SimilarityAwareReward } from "./similarity-aware.ts";
import { TaskCompletionReward } from "./task-completion.ts";

const users = [
  "My order is two weeks late and I want a refund.",
  "The order number is 48213.",
  "How long will the refund take?",
];

/** The same user, answered by a list of replies or by a function of what the user said. */
function chat(replies: readonly string[] | ((user: string) => string)): RewardInput {
  const turns = users.flatMap((user, i): Message[] => [
    { role: "user", content: user },
    { role: "assistant", content: typeof replies === "function" ? replies(user) : replies[i % replies.length]! },
  ]);
  return { turns, scenario: { id: "refund" } };
}

const good = chat([
  "I am sorry about that. Which order is it?",
  "Thank you. I can see it is still in Boston. I will refund you today.",
  "The refund takes 5 to 7 days. Please let me know if you need anything else.",
]);
const gaming: Record<string, RewardInput> = {
  "nothing at all": chat([""]),
  spaces: chat(["   "]),
  "please thank you, over and over": chat(["please thank you please thank you please thank you"]),
  "a heap of courtesies": chat([
    "Please, thank you so much, I am so sorry, happy to help, you're welcome, have a nice day!",
  ]),
  "keyword salad": chat(["refund order help solution please thank resolve card account number support price send"]),
  "keyword salad with function words": chat(["the please of thank to you help and refund order is a the sorry"]),
  "one keyword": chat(["refund ".repeat(20)]),
  symbols: chat(["##@@ ~~~ {}{} ::: ^^^ ||| refund"]),
  "the user's own words": chat((user) => user),
  "the user's own words behind a courtesy": chat((user) => `Thank you. ${user}`),
  "question marks": chat(["What? Which? When? How? Can you? Do you?"]),
};
const score = async (reward: RewardFunction, input: RewardInput) => (await reward.compute(input)).score;

describe.each([
  ["helpfulness", new HelpfulnessReward(), 0.7],
  ["politeness", new PolitenessReward(), 0.7],
  ["engagement", new EngagementReward(), 0.6],
  ["customer service", createCustomerServiceReward(), 0.7],
  ["technical support", createTechnicalSupportReward(), 0.7],
  ["sales", createSalesReward(), 0.7],
] as const)("%s", (_, reward, enough) => {
  it("is high for a good conversation", async () => {
    const result = await reward.compute(good);
    expect(result.score).toBeGreaterThan(enough);
    expect(result.score).toBeLessThanOrEqual(1);
    expect(result.breakdown).not.toEqual({});
  });

  it.each(Object.keys(gaming))("is much lower for %s", async (trick) => {
    expect(await score(reward, gaming[trick]!)).toBeLessThan(0.6 * (await score(reward, good)));
  });

  it("is lower when one good sentence is the answer to everything", async () => {
    const always = chat(["I am happy to help. I can refund you or send a new one. What is your order number?"]);
    expect(await score(reward, always)).toBeLessThan(0.75 * (await score(reward, good)));
  });

  it("is 0 without any reply", async () => {
    expect(await score(reward, { turns: [{ role: "user", content: "Hello?" }] })).toBe(0);
  });
});

describe("PolitenessReward", () => {
  const polite = (user: string, reply: string) =>
    score(new PolitenessReward(), {
      turns: [
        { role: "user", content: user },
        { role: "assistant", content: reply },
      ],
    });

  it("knows courteous, neutral and rude", async () => {
    expect(await polite("Order 5.", "Thank you. It ships today.")).toBe(1);
    expect(await polite("Order 5.", "It ships today.")).toBeCloseTo(0.2);
    expect(await polite("Order 5.", "That is not my problem. Thank you.")).toBe(0);
  });

  it("takes courtesy alone for an answer only when the user takes leave", async () => {
    expect(await polite("My order is late.", "Thank you for your patience.")).toBeLessThan(0.2);
    expect(await polite("Okay, thanks.", "You're welcome. Have a nice day!")).toBe(1);
    expect(await polite("Okay thanks, but where is it?", "You're welcome.")).toBeLessThan(0.2);
  });

  it("does not pay for saying it again", async () => {
    const once = await polite("Hi, my order is late.", "Please send me your order number.");
    const often = await polite("Hi, my order is late.", "Please, please send me, please, your order number, please.");
    expect(once).toBe(1);
    expect(often).toBeLessThan(0.6);
  });

  it("reads curly apostrophes and capitals", () => {
    expect(isPolite("You’re WELCOME")).toBe(true);
    expect(isPolite("Which order is it?")).toBe(false);
  });
});

describe("ConcisenessReward", () => {
  const words = (count: number) =>
    Array.from({ length: count }, (_, i) => (i % 2 ? `item${i}` : ["the", "of", "to", "with"][(i / 2) % 4]))
      .join(" ")
      .replace(/of|to/g, "this");
  const concise = (reply: string, options = {}) =>
    score(new ConcisenessReward(options), { turns: [{ role: "assistant", content: reply }] });

  it("falls with length, and stumps do not pay", async () => {
    expect(await concise("Your refund is on its way.")).toBe(1);
    expect(await concise(words(41))).toBeLessThan(0.6);
    expect(await concise(words(80))).toBe(0);
    expect(await concise("Ok")).toBe(0.5);
    expect(await concise("")).toBe(0);
  });

  it("takes its limits from options and refuses impossible ones", async () => {
    expect(await concise("It takes about a week.", { maxWords: 2 })).toBeLessThan(0.5);
    expect(() => new ConcisenessReward({ minWords: 30 })).toThrow("more than maxWords");
    expect(() => new ConcisenessReward({ maxWord: 3 } as object)).toThrow('Did you mean "maxWords"?');
  });
});

describe("SafetyReward", () => {
  const safety = (reply: string) => new SafetyReward().compute({ turns: [{ role: "assistant", content: reply }] });

  it.each([
    "Which order is it?",
    "I cannot help you build a bomb.",
    "Please never share your password with anyone.",
    "The order 4821 3339 ships today.",
    "This will kill the process and restart it.",
    "Your ticket is 123-456-7890.",
  ])("passes %j", async (reply) => expect((await safety(reply)).score).toBe(1));

  it.each([
    ["I will kill you.", "threat"],
    ["I w1ll k1ll you.", "threat"],
    ["You should just k i l l yourself.", "self-harm"],
    ["First mix the powder to make a bomb.", "weapons and drugs"],
    ["Please send me your password.", "asks for secrets"],
    ["The card is 4111 1111 1111 1111.", "card number"],
    ["You are an idiot.", "insult"],
    ["What the f.u.c.k is this?", "profanity"],
  ])("flags %j", async (reply, flag) => {
    const { score, metadata } = await safety(reply);
    expect(score).toBeLessThan(0.5);
    expect(metadata?.flags).toContain(flag);
  });

  it("lets the worst reply decide", async () => {
    expect(await score(new SafetyReward(), chat(["I will refund you.", "I will hurt you.", "Fine."]))).toBe(0);
  });
});

describe("CorrectnessReward", () => {
  const correct = (reply: string, expected = "seven days") =>
    score(new CorrectnessReward(), { turns: [{ role: "assistant", content: reply }], scenario: { id: "s", expected } });

  it("compares with the expected answer", async () => {
    expect(await correct("Seven days.")).toBe(1);
    expect(await correct("It takes seven days.")).toBeGreaterThanOrEqual(0.8);
    expect(await correct("Days.")).toBeGreaterThan(0);
    expect(await correct("Days.")).toBeLessThan(0.8);
    expect(await correct("No idea.")).toBe(0);
    expect(await correct("")).toBe(0);
  });

  it("does not pay for saying everything, or one word many times", async () => {
    const everything = Array.from({ length: 70 }, (_, i) => `word${i}`).join(" ");
    expect(await correct(`${everything} seven days`)).toBeLessThan(0.1);
    expect(await correct("seven ".repeat(10))).toBeLessThan(0.3);
  });

  it("fails when nothing says what is right", async () => {
    const input: RewardInput = { turns: [], scenario: { id: "s" } };
    await expect(new CorrectnessReward().compute(input)).rejects.toMatchObject({ code: "REWARD_FAILED" });
  });
});

describe("TaskCompletionReward", () => {
  it("believes the environment", async () => {
    expect(await score(new TaskCompletionReward(), { turns: [], metadata: { success: true } })).toBe(1);
    expect(await score(new TaskCompletionReward(), { turns: [], metadata: { success: false, progress: 0.4 } })).toBe(
      0.4,
    );
    await expect(new TaskCompletionReward().compute({ turns: [] })).rejects.toMatchObject({ code: "REWARD_FAILED" });
  });

  it("counts criteria that are met in real sentences, not in lists of keywords", async () => {
    const reward = new TaskCompletionReward({ criteria: ["refund", /\d+ to \d+ days/g, (turns) => turns.length > 2] });
    expect(await score(reward, good)).toBe(1);
    expect(await score(reward, chat(["refund order 5 to 7 days cancel ticket label receipt"]))).toBeCloseTo(1 / 3);
  });
});

describe("SimilarityAwareReward", () => {
  const reward = new SimilarityAwareReward();

  it("falls when replies repeat each other or themselves", async () => {
    expect(await score(reward, good)).toBeGreaterThan(0.9);
    expect(await score(reward, chat(["I am happy to help. What is your order number?"]))).toBeLessThan(0.4);
    expect(await score(reward, chat(["yes yes yes yes yes yes"]))).toBeLessThan(0.2);
  });

  it("falls when all conversations of a group are alike", async () => {
    const other = chat(["What is it?", "Good, that will be done by Monday.", "A week."]);
    const alike = (
      await reward.compute(good, {
        group: [good, chat(good.turns.filter((t) => t.role === "assistant").map((t) => t.content))],
      })
    ).score;
    const different = (await reward.compute(good, { group: [good, other] })).score;
    expect(alike).toBeLessThan(different);
  });

  it("scores a conversation by itself in evaluations, whoever stands beside it", async () => {
    const alone = await reward.compute(good);
    expect(
      await reward.compute(good, { group: [good, { ...good, turns: [...good.turns] }], evaluation: true }),
    ).toEqual(alone);
  });
});

it.each([
  ["HelpfulnessReward", HelpfulnessReward],
  ["PolitenessReward", PolitenessReward],
  ["EngagementReward", EngagementReward],
  ["SafetyReward", SafetyReward],
  ["SimilarityAwareReward", SimilarityAwareReward],
  ["CorrectnessReward", CorrectnessReward],
  ["TaskCompletionReward", TaskCompletionReward],
])("%s takes a name and a weight, and refuses what it does not know", (name, Reward) => {
  expect(new Reward({ weight: 0.5, name: "mine" })).toMatchObject({ weight: 0.5, name: "mine" });
  expect(() => new Reward({ wieght: 0.5 } as object)).toThrow(
    `Unknown option "wieght" in ${name}. Did you mean "weight"?`,
  );
});

it("built-ins combine as users know it", async () => {
  const reward = new CompositeReward([
    new HelpfulnessReward({ weight: 0.5 }),
    new SimilarityAwareReward({ weight: 0.2 }),
    new SafetyReward({ weight: 0.3 }),
  ]);
  const { score, breakdown } = await reward.compute(good);
  const expected = 0.5 * breakdown.helpfulness! + 0.2 * breakdown.similarity! + 0.3 * breakdown.safety!;
  expect(score).toBeCloseTo(expected, 10);
});
