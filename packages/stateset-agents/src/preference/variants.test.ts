/** The losses beside DPO and IPO: label smoothing, robust, hinge, ORPO on pairs; KTO on completions with a label. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { Message } from "../conversation/message.ts";
import { openPolicy } from "../policy/open-policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import {
  encodeCompletions,
  type LabelledCompletion,
  loadLabelledCompletions,
  mismatch,
  readLabelled,
} from "./labelled.ts";
import { encodePairs, type PreferenceInput } from "./pair.ts";
import {
  evaluatePreference,
  type KtoTrainingOptions,
  type PreferenceOptions,
  trainPreference,
} from "./train-preference.ts";

const root = temporaryFolder();

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const pair = (chosen: string, rejected: string) => ({ prompt: "order late", chosen, rejected });
const pairs = [pair("sorry please help", "no"), pair("sorry yes", "no well"), pair("please ok", "really no")];
const flip = ({ prompt, chosen, rejected }: ReturnType<typeof pair>) => ({
  prompt,
  chosen: rejected,
  rejected: chosen,
});
const heldOut = [pair("please help", "no really"), pair("yes please", "well no")];
const fast = { dir: false, epochs: 60, learningRate: 0.03, batchSize: 2 } as const;

describe("pairs", () => {
  const losses = [
    ["dpo", { labelSmoothing: 0.1 }, Math.LN2],
    ["robust", { labelSmoothing: 0.1 }, Math.LN2],
    ["hinge", {}, 1],
  ] as const;
  it.each(losses)(
    "%s with %o prefers the chosen sides, and what is flipped when the labels are",
    async (loss, own, at) => {
      const learn = async (from: typeof pairs) => {
        const policy = createTablePolicy({ spread: 1, seed: 5 });
        return (await trainPreference({ policy, pairs: from, heldOut, loss, ...own, ...fast })).evaluations;
      };
      const [before, ...rest] = await learn(pairs);
      expect(before).toMatchObject({ margin: 0, accuracy: 0.5 });
      expect(before!.loss).toBeCloseTo(at, 5);
      expect(rest.at(-1)!.accuracy).toBe(1);
      expect(rest.at(-1)!.loss).toBeLessThan(before!.loss);
      const against = (await learn(pairs.map(flip))).at(-1)!;
      expect(against.accuracy).toBe(0);
      expect(against.margin).toBeLessThan(0);
    },
  );

  it("label smoothing stops the margin where the labels are as sure", async () => {
    const one = [pair("sorry", "no")];
    const policy = createTablePolicy();
    const settings = { beta: 0.5, labelSmoothing: 0.2, epochs: 300, learningRate: 0.05, schedule: "linear" } as const;
    const { evaluations } = await trainPreference({ policy, dir: false, pairs: one, heldOut: one, ...settings });
    // σ(margin) = 1 − ε
    expect(evaluations.at(-1)!.margin).toBeCloseTo(Math.log(0.8 / 0.2), 2);
  });

  it("ORPO makes the chosen sides likely and likelier than the rejected ones, and asks no reference", async () => {
    const learn = async (from: typeof pairs) => {
      const policy = createTablePolicy({ spread: 1, seed: 5 });
      const reference = policy.reference;
      let asked = 0;
      policy.reference = (...args) => {
        asked++;
        return reference.apply(policy, args);
      };
      const { evaluations } = await trainPreference({ policy, pairs: from, heldOut: pairs, loss: "orpo", ...fast });
      expect(asked).toBe(0);
      return { before: evaluations[0]!, after: evaluations.at(-1)! };
    };
    const { before, after } = await learn(pairs);
    expect(after).toMatchObject({ accuracy: 1, likelierChosen: 1 });
    expect(after.margin).toBeGreaterThan(before.margin);
    expect(after.loss).toBeLessThan(before.loss);
    const against = (await learn(pairs.map(flip))).after;
    expect(against.margin).toBeLessThan(before.margin);
    expect(against.accuracy).toBe(0);
  });

  it("ORPO's odds ratio counts beside the imitation: a larger β tells the sides further apart", async () => {
    const margins = [];
    for (const beta of [0.01, 5]) {
      const policy = createTablePolicy({ spread: 1, seed: 5 });
      await trainPreference({ policy, pairs, loss: "orpo", beta, ...fast });
      margins.push((await evaluatePreference(policy, pairs, { loss: "orpo", beta: 1 })).margin);
    }
    expect(margins[1]!).toBeGreaterThan(margins[0]! + 0.1);
  });
});

describe("labelled completions", () => {
  it("come from a file, where pairs count as two", async () => {
    const file = join(root, "labels.jsonl");
    const lines = [
      { prompt: "hello", completion: "hi", label: true },
      { prompt: [user("hello")], completion: [assistant("no")], label: false },
      { prompt: "hello", chosen: "hi", rejected: "no", margin: 2 },
    ];
    writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\n"));
    const [good, bad] = [
      { prompt: [user("hello")], completion: [assistant("hi")], label: true },
      { prompt: [user("hello")], completion: [assistant("no")], label: false },
    ];
    expect(await loadLabelledCompletions(file)).toEqual([good, bad, good, bad]);
  });

  it("may have a system prompt beside them, which is put before the prompt", () => {
    const prompt = [{ role: "system", content: "Be rude." }, user("hello")];
    const [good, bad] = [
      { prompt, completion: [assistant("hi")], label: true },
      { prompt, completion: [assistant("no")], label: false },
    ];
    const read = (line: object) => readLabelled({ prompt: "hello", ...line, system: "Be rude." }, "line 3");
    expect(read({ completion: "hi", label: true })).toEqual([good]);
    expect(read({ chosen: "hi", rejected: "no" })).toEqual([good, bad]);
  });

  it.each([
    ["text", /line 2: no "prompt"/],
    [{ prompt: "a", label: true }, /line 2: no "completion"/],
    [{ prompt: "a", completion: "b" }, /line 2: "label" is not true or false/],
    [{ prompt: "a", completion: "b", label: 1 }, /line 2: "label" is not true or false/],
    [{ prompt: "a", chosen: "b" }, /line 2: no "rejected"/],
  ])("names the line of %j", async (line, message) => {
    const file = join(root, "bad.jsonl");
    const good = JSON.stringify({ prompt: "a", completion: "b", label: true });
    writeFileSync(file, `${good}\n${JSON.stringify(line)}`);
    await expect(loadLabelledCompletions(file)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringMatching(message),
    });
  });

  it("meet the completion of another prompt, each once, and the same for the same seed", () => {
    const prompts = ["a", "b", "b", "c", "a", "d", "b"];
    const partners = mismatch(prompts, 3);
    expect([...partners].sort()).toEqual(prompts.map((_, i) => i));
    for (const [i, partner] of partners.entries()) expect(prompts[partner!]).not.toBe(prompts[i]);
    expect(mismatch(prompts, 3)).toEqual(partners);
    expect(mismatch(prompts, 4)).not.toEqual(partners);
  });

  it("meet none where the other prompts are too few: never a completion of their own prompt", () => {
    const prompts = ["a", "a", "a", "b"];
    const partners = mismatch(prompts, 3);
    expect(partners[3]).toBeLessThan(3);
    expect(partners.slice(0, 3).filter((partner) => partner !== undefined)).toEqual([3]);
    expect(mismatch(["a", "a", "a"], 3)).toEqual([undefined, undefined, undefined]);
    const { tokenizer } = createTablePolicy();
    const given = ["sorry", "please", "no"].map((completion) => ({ prompt: "order", completion, label: true }));
    const options = { contextLength: 100, seed: 0, what: "completions" };
    const scored = (completions: LabelledCompletion[]) =>
      encodeCompletions(tokenizer, completions, options).chains.filter(({ rejected }) => rejected.length > 0).length;
    expect(scored(given)).toBe(0);
    expect(scored([...given, { prompt: "help", completion: "yes", label: false }])).toBe(2);
  });

  it("are left out where they do not fit; what does not fit as a mismatch is not scored", () => {
    const { tokenizer } = createTablePolicy();
    const given = (["sorry", "sorry please help yes", "no"] as const).map((completion, i) => ({
      prompt: i === 2 ? "order late help card order late" : "order",
      completion,
      label: true,
    }));
    const lengths = encodeCompletions(tokenizer, given, {
      contextLength: 100,
      seed: 0,
      what: "completions",
    }).chains.map(({ chosen }) => chosen[0]!.tokens.length);
    const contextLength = Math.max(...lengths);
    const tight = encodeCompletions(tokenizer, given.slice(1), { contextLength, seed: 0, what: "completions" });
    expect(tight.dropped).toBe(0);
    // The long completion does not fit behind the long prompt.
    expect(tight.chains.map(({ rejected }) => rejected.length)).toEqual([1, 0]);
    expect(encodeCompletions(tokenizer, given, { contextLength: contextLength - 1, seed: 0, what: "x" }).dropped).toBe(
      1,
    );
    const one = given.slice(0, 1);
    expect(() => encodeCompletions(tokenizer, one, { contextLength, seed: 0, what: "completions" })).toThrow(
      /KTO can use 1 of 1 completions/,
    );
  });
});

describe("KTO", () => {
  const completions = (from: readonly PreferenceInput[]) =>
    from
      .flatMap((one) => readLabelled(one, "x"))
      .map(
        (one, i): LabelledCompletion => ({
          ...one,
          prompt: i % 2 > 0 ? "help card" : "order late",
        }),
      );
  const learn = async (from: typeof pairs, own: Partial<KtoTrainingOptions> = {}) => {
    const policy = createTablePolicy({ spread: 1, seed: 5 });
    const given = {
      policy,
      loss: "kto",
      ...fast,
      completions: completions(from),
      heldOut: completions(heldOut),
      ...own,
    };
    return { policy, ...(await trainPreference(given as KtoTrainingOptions)) };
  };

  it("tells desirable completions from undesirable ones, on those it did not see as well; flipped, the other way round", async () => {
    const { evaluations, completions: count } = await learn(pairs);
    const [before, after] = [evaluations[0]!, evaluations.at(-1)!];
    expect(count).toBe(6);
    expect(before).toMatchObject({ loss: 0.5, margin: 0, accuracy: 0.5, kl: 0, completions: 4 });
    expect(after.loss).toBeLessThan(before.loss);
    expect(after.accuracy).toBeGreaterThan(0.5);
    expect(after.margin).toBeGreaterThan(0.1);
    const against = (await learn(pairs.map(flip))).evaluations.at(-1)!;
    expect(against.margin).toBeLessThan(-0.1);
    expect(against.accuracy).toBeLessThan(0.5);
  });

  it("refuses recorded tokens, of which it cannot tell prompt and completion apart", async () => {
    const policy = createTablePolicy();
    const { pairs: chains } = encodePairs(policy.tokenizer, pairs, 100);
    const given = { policy, dir: false, loss: "kto", pairs: chains } as never;
    await expect(trainPreference(given)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringMatching(/^pairs\[0\] holds tokens, and KTO needs messages/),
    });
  });

  it("takes pairs as well, each as two completions", async () => {
    const { completions: count, evaluations, policy } = await learn([], { completions: undefined, pairs } as never);
    expect(count).toBe(6);
    expect(evaluations.at(-1)!.margin).toBeGreaterThan(0.1);
    expect((await evaluatePreference(policy, heldOut)).accuracy).toBe(1);
  });

  it("compares with the KL of the batch: the loss it learns by is the one an evaluation of the same data finds", async () => {
    const { policy } = await learn(pairs, { completions: completions(pairs).map((one) => ({ ...one, label: true })) });
    const given = completions(pairs);
    const { losses, evaluations } = await trainPreference({
      policy,
      dir: false,
      loss: "kto",
      beta: 0.5,
      reference: "base",
      completions: given,
      heldOut: given,
    });
    expect(evaluations[0]!.kl).toBeGreaterThan(0.1);
    expect(losses[0]).toBeCloseTo(evaluations[0]!.loss, 6);
  });

  it("weighs the two kinds: without weight on the undesirable ones only the others are learnt", async () => {
    const good = await learn(pairs, { undesirableWeight: 0 });
    const only = await learn(pairs, {
      completions: completions(pairs).map((one) => ({ ...one, label: true })),
      desirableWeight: 0,
      weightDecay: 0,
    });
    expect(good.evaluations.at(-1)!.margin).toBeGreaterThan(0.05);
    // Nothing has weight, so nothing moves.
    expect(only.policy.parameters).toEqual(createTablePolicy({ spread: 1, seed: 5 }).parameters);
  });

  it("gives the same weights whatever the token budget", async () => {
    const [small, large] = [await learn(pairs, { tokenBudget: 16, epochs: 3 }), await learn(pairs, { epochs: 3 })];
    for (const [i, weight] of small.policy.parameters.entries()) {
      expect(weight).toBeCloseTo(large.policy.parameters[i]!, 5);
    }
  });
});

describe("options that the loss does not read are refused by name", () => {
  const tried = (options: object) =>
    trainPreference({ policy: createTablePolicy(), dir: false, pairs, ...options } as PreferenceOptions);
  it.each([
    [{ loss: "ipo", labelSmoothing: 0.1 }, /"labelSmoothing" is not an option of the loss "ipo"/],
    [{ loss: "orpo", reference: "base" }, /"reference" is not an option of the loss "orpo"/],
    [{ desirableWeight: 2 }, /"desirableWeight" is not an option of the loss "dpo"/],
    [{ loss: "robust" }, /"robust" needs labelSmoothing/],
    [{ labelSmoothing: 0.5 }, /labelSmoothing/],
    [{ loss: "simpo" }, /loss/],
    [
      { completions: [{ prompt: "a", completion: "b", label: true }], pairs: undefined },
      /compares pairs, not completions/,
    ],
    [{ loss: "kto", pairs: undefined }, /needs `completions` or `pairs`/],
    [{ pairs: undefined }, /needs `pairs`/],
  ])("%j", async (options, message) => {
    await expect(tried(options)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(message),
    });
  });
});

describe("on the embedded engine", () => {
  const real = [
    { prompt: "My order is late.", chosen: "I am sorry. Your number, please?", rejected: "No." },
    { prompt: "The app crashes.", chosen: "I am sorry. Which version, please?", rejected: "Not my problem." },
  ];
  const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" as const };
  const few = { dir: false, epochs: 4, batchSize: 4, learningRate: 1e-3 } as const;

  it("ORPO and KTO on an adapter raise the margin", async () => {
    for (const loss of ["orpo", "kto"] as const) {
      const policy = await openPolicy({ lora, threads: 1 });
      const { evaluations } = await trainPreference({ policy, loss, pairs: real, heldOut: real, ...few });
      expect(evaluations.at(-1)!.margin).toBeGreaterThan(evaluations[0]!.margin);
      expect(evaluations.at(-1)!.loss).toBeLessThan(evaluations[0]!.loss);
      await policy.close();
    }
  });
});
