import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { Message } from "../conversation/message.ts";
import type { Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Policy } from "../policy/policy.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { loadLabelledCompletions } from "./labelled.ts";
import { loadNeuralReward } from "./neural-reward.ts";
import { NeuralRewardTrainer } from "./neural-reward-trainer.ts";
import {
  encodePairs,
  loadPreferencePairs,
  type PairChains,
  type PreferencePair,
  pairsFromGroups,
  readPair,
} from "./pair.ts";
import { trainPreference } from "./train-preference.ts";

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const pair = (chosen: string, rejected: string): PreferencePair => ({
  prompt: [user("order late")],
  chosen: [assistant(chosen)],
  rejected: [assistant(rejected)],
});
const pairs = [
  pair("sorry please help", "no"),
  pair("sorry yes", "no well"),
  pair("please ok", "really no"),
  { ...pair("sorry", "no"), chosen: [assistant("sorry"), user("ok"), assistant("thanks")] },
];
describe("pairs", () => {
  it("come from a file in any of the usual layouts", async () => {
    const file = join(temporaryFolder(), "pairs.jsonl");
    const lines = [
      { prompt: "hello", chosen: "hi", rejected: "no" },
      { prompt: [user("hello")], chosen: [assistant("hi")], rejected: [assistant("no")], margin: 2 },
      { chosen: [user("hello"), assistant("hi")], rejected: [user("hello"), assistant("no")] },
    ];
    writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\n"));
    const loaded = await loadPreferencePairs(file);
    const expected = { prompt: [user("hello")], chosen: [assistant("hi")], rejected: [assistant("no")] };
    expect(loaded).toEqual([expected, { ...expected, margin: 2 }, expected]);
  });

  it("share their messages' layouts with chats: single ones, ShareGPT's, and short tool calls answered behind the prompt", async () => {
    const file = join(temporaryFolder(), "pairs.jsonl");
    const shared = (from: string, value: string) => ({ from, value });
    const call = { role: "assistant", tool_calls: [{ name: "find", arguments: { order: 5 } }] };
    const found = { role: "tool", name: "find", content: "late" };
    const lines = [
      { prompt: "hello", chosen: assistant("hi"), rejected: assistant("no") },
      { conversations: [shared("human", "hello")], chosen: shared("gpt", "hi"), rejected: shared("gpt", "no") },
      { prompt: [user("hello"), call], chosen: [found, assistant("hi")], rejected: [found, assistant("no")] },
    ];
    writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\n"));
    const [first, second, third] = await loadPreferencePairs(file);
    expect(first).toEqual({ prompt: [user("hello")], chosen: [assistant("hi")], rejected: [assistant("no")] });
    expect(second).toEqual(first);
    const id = third!.prompt[1]!.tool_calls![0]!.id;
    expect([third!.chosen[0], third!.rejected[0]]).toEqual([
      { ...found, tool_call_id: id },
      { ...found, tool_call_id: id },
    ]);
  });

  it("may have a system prompt beside them, which is put before the prompt, and tools as JSON text", () => {
    const read = (line: object) => readPair({ ...line, system: "Be rude." }, "pairs.jsonl, line 3");
    const rude: Message = { role: "system", content: "Be rude." };
    const sides = { chosen: [assistant("hi")], rejected: [assistant("no")] };
    const whole = {
      chosen: [user("hello"), assistant("hi")],
      rejected: [user("hello"), assistant("no")],
    };
    const expected = { prompt: [rude, user("hello")], ...sides };
    expect(read({ conversations: [{ from: "human", value: "hello" }], ...sides })).toEqual(expected);
    expect(read({ prompt: "hello", chosen: "hi", rejected: "no" })).toEqual(expected);
    expect(read({ prompt: [rude, user("hello")], ...sides })).toEqual(expected);
    expect(read(whole)).toEqual(expected);
    expect(read({ ...sides })).toEqual({ prompt: [rude], ...sides });
    const kind: Message = { role: "system", content: "Be kind." };
    expect(() => read({ ...whole, chosen: [kind, ...whole.chosen] })).toThrow(
      'pairs.jsonl, line 3: it has a "system" and its conversation begins with another',
    );
    const tool = { type: "function", function: { name: "find" } };
    expect(read({ prompt: "hello", ...sides, tools: JSON.stringify([tool]) }).tools).toEqual([tool]);
    expect(() => read({ prompt: "hello", ...sides, tools: "{}" })).toThrow("line 3: the tools are not a list");
  });

  it("name the file and the line of what is malformed", async () => {
    const file = join(temporaryFolder(), "pairs.jsonl");
    writeFileSync(file, '{"prompt":"a","chosen":"b","rejected":"c"}\n{"prompt":"a","chosen":"b"}');
    await expect(loadPreferencePairs(file)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringMatching(/line 2: no "rejected"/),
    });
    writeFileSync(file, "\n");
    await expect(loadPreferencePairs(file)).rejects.toThrow(/holds no pairs\. A pair is a line/);
    await expect(loadLabelledCompletions(file)).rejects.toThrow(
      /holds no completions\. A labelled completion is a line/,
    );
  });

  it("may be given in code in the same layouts, and are named where they are malformed", () => {
    const { tokenizer } = createTablePolicy();
    const { pairs: encoded } = encodePairs(
      tokenizer,
      [
        { prompt: "order late", chosen: "sorry", rejected: "no" },
        { chosen: [user("order late"), assistant("sorry")], rejected: [user("order late"), assistant("no")] },
        { prompt: [user("order late")], chosen: [assistant("sorry")], rejected: [assistant("no")] },
      ],
      100,
    );
    expect(encoded[1]).toEqual(encoded[0]);
    expect(encoded[2]).toEqual(encoded[0]);
    const failing = (value: unknown) => () => encodePairs(tokenizer, [encoded[0]!, value as PreferencePair], 100);
    expect(failing("text")).toThrow(/pairs\[1\]: no "chosen"/);
    expect(failing({ prompt: "a", chosen: "b" })).toThrow(/pairs\[1\]: no "rejected"/);
    expect(failing({ chosen: [{ role: "assistent", content: "x" }], rejected: "y" })).toThrow(
      /pairs\[1\]: chosen: message 1/,
    );
  });

  it("learn only from assistant messages after the prompt, over several turns", () => {
    const { tokenizer } = createTablePolicy();
    const prompt = [user("order late"), assistant("sorry"), user("help")];
    const chosen = [assistant("yes please"), user("ok"), assistant("thanks")];
    const { pairs: encoded } = encodePairs(tokenizer, [{ prompt, chosen, rejected: [assistant("no")] }], 100);
    const text = ([chain]: PairChains["chosen"]) =>
      tokenizer.decode(chain!.tokens.filter((_, i) => chain!.learn[i] === 1));
    expect(text(encoded[0]!.chosen)).toBe("yes please thanks");
    expect(text(encoded[0]!.rejected)).toBe("no");
  });

  it("leave out equal sides and what does not fit", () => {
    const { tokenizer } = createTablePolicy();
    expect(encodePairs(tokenizer, [...pairs, pair("ok", "ok")], 14).dropped).toBe(1);
    expect(encodePairs(tokenizer, pairs, 8).dropped).toBeGreaterThan(1);
    expect(() => encodePairs(tokenizer, [pair("ok", "ok")], 100)).toThrow(/None of the 1/);
  });

  it("come from sampled groups, best against worst, on the sampled tokens", () => {
    const trajectory = (score: number, token: number): Trajectory => ({
      id: `t${score}`,
      scenarioId: "s",
      turns: [],
      chains: [
        {
          tokens: Int32Array.of(1, token),
          logprobs: Float32Array.of(0, -1),
          learn: Uint8Array.of(0, 1),
          turn: Int32Array.of(-1, 1),
        },
      ],
      reward: { score, breakdown: {} },
      ended: "done",
      temperature: 1,
      stub: false,
      metadata: {},
    });
    const group = (...scores: number[]): TrajectoryGroup => ({
      id: "g",
      scenarioId: "s",
      trajectories: scores.map((score, i) => trajectory(score, i)),
    });
    const found = pairsFromGroups([group(0.2, 1, 0, 0.4), group(1, 1)], { perGroup: 2 });
    expect(found.map(({ chosen, rejected }) => [chosen[0]!.tokens[1], rejected[0]!.tokens[1]])).toEqual([
      [1, 2],
      [3, 0],
    ]);
    expect(pairsFromGroups([group(0.2, 1, 0, 0.4)], { perGroup: 2, minGap: 0.5 })).toHaveLength(1);
  });
});

it("pairsFromGroups() says so when nothing in the groups is marked for learning", () => {
  const group = { id: "g", scenarioId: "g", trajectories: [] };
  expect(() => pairsFromGroups([group])).toThrow(/no conversation with tokens to learn from.*harvestBestOfN/);
});

describe("trainPreference", () => {
  it.each(["dpo", "ipo"] as const)("%s prefers the chosen sides, on pairs it did not see as well", async (loss) => {
    const policy = createTablePolicy({ spread: 1, seed: 5 });
    const heldOut = [pair("please help", "no really"), pair("yes please", "well no")];
    const result = await trainPreference({
      policy,
      dir: false,
      pairs,
      heldOut,
      loss,
      epochs: 60,
      learningRate: 0.03,
      batchSize: 2,
    });
    const [before, after] = [result.evaluations[0]!, result.evaluations.at(-1)!];
    expect(before).toMatchObject({ margin: 0, accuracy: 0.5 });
    expect(before.loss).toBeCloseTo(loss === "dpo" ? Math.LN2 : 25);
    expect(after.accuracy).toBe(1);
    expect(after.loss).toBeLessThan(before.loss);
    expect(after.likelierChosen).toBe(1);
  });

  it("stops IPO's margin at its target", async () => {
    const policy = createTablePolicy();
    const one = [pair("sorry", "no")];
    const { evaluations } = await trainPreference({
      policy,
      dir: false,
      pairs: one,
      heldOut: one,
      loss: "ipo",
      beta: 0.5,
      epochs: 300,
      learningRate: 0.05,
      schedule: "linear",
    });
    // margin is reported times β; the target of the plain margin is 1/(2β) = 1.
    expect(evaluations.at(-1)!.margin / 0.5).toBeCloseTo(1, 2);
  });

  it("gives the same weights whatever the token budget", async () => {
    const run = async (tokenBudget: number) => {
      const policy = createTablePolicy();
      await trainPreference({ policy, dir: false, pairs, epochs: 3, learningRate: 0.02, tokenBudget });
      return policy.parameters;
    };
    const [small, large] = [await run(16), await run(8192)];
    small.forEach((weight, i) => {
      expect(weight).toBeCloseTo(large[i]!, 5);
    });
  });
});

describe("NeuralRewardTrainer", () => {
  /** The table's value head sees the last token alone, so the last word must be it, not the end of the turn. */
  function lastWordPolicy(policy = createTablePolicy()): Policy {
    const { tokenizer } = policy;
    const segments: typeof tokenizer.segments = (messages, options) => {
      const all = tokenizer.segments(messages, options);
      const last = all.at(-1)!;
      return [...all.slice(0, -1), { ...last, tokens: last.tokens.subarray(0, -1) }];
    };
    return Object.defineProperties(Object.create(policy), { tokenizer: { value: { ...tokenizer, segments } } });
  }
  const open = async ({ model }: { model?: string }) => {
    const policy = createTablePolicy();
    policy.parameters.set(new Float32Array(new Uint8Array(readFileSync(join(model!, "parameters.bin"))).buffer));
    await policy.addValueHead();
    return lastWordPolicy(policy);
  };
  const examples = [pair("sorry please", "sorry no"), pair("ok thanks", "ok really"), pair("yes please", "yes really")];
  const heldOut = [pair("card please", "card no"), pair("card thanks", "card really")];

  it("learns to score, says how well, and is saved, loaded and used as a reward", async () => {
    const trainer = new NeuralRewardTrainer({
      dir: false,
      policy: lastWordPolicy(),
      examples,
      heldOut,
      epochs: 200,
      learningRate: 0.05,
      systemPrompt: "help",
    });
    const { reward, heldOut: measured, evaluations } = await trainer.train();
    expect(evaluations[0]!.accuracy).toBe(0.5);
    expect(evaluations[0]!.loss).toBeCloseTo(Math.LN2);
    expect(measured).toMatchObject({ accuracy: 1, count: 2 });
    expect(measured!.ece).toBeLessThan(0.2);
    const group = ["well please", "well no"].map((text) => ({ turns: [user("help"), assistant(text)] }));
    const [good, bad] = await Promise.all(group.map((member) => reward.compute(member, { group })));
    expect(good!.score).toBeGreaterThan(0.5);
    expect(bad!.score).toBeLessThan(-0.5);
    expect(good!.breakdown).toEqual({ neural: good!.score });

    const dir = temporaryFolder();
    await reward.save(dir);
    const loaded = await loadNeuralReward(dir, { open });
    expect(loaded.info).toEqual(reward.info);
    expect(await loaded.compute(group[0]!)).toEqual(good);
    const probability = await loadNeuralReward(dir, { open, output: "probability" });
    expect((await probability.compute(group[0]!)).score).toBeGreaterThan(0.5);
    const headless = async () => createTablePolicy();
    await expect(loadNeuralReward(dir, { open: headless })).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
    await expect(loadNeuralReward(temporaryFolder())).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });

  it("learns from labels as well", async () => {
    const labelled = ["please", "thanks", "no", "really"].map((word, i) => ({
      messages: [user("order"), assistant(`ok ${word}`)],
      good: i < 2,
    }));
    const { reward, heldOut: measured } = await new NeuralRewardTrainer({
      dir: false,
      policy: lastWordPolicy(),
      examples: labelled,
      heldOut: labelled,
      epochs: 150,
      learningRate: 0.05,
    }).train();
    expect(measured!.accuracy).toBe(1);
    const raw = await reward.rawScores([[assistant("please")], [assistant("no")]]);
    expect(raw[0]).toBeGreaterThan(1);
    expect(raw[1]).toBeLessThan(-1);
  });

  it("names examples that are malformed, and never takes a missing label for a bad one", async () => {
    const messages = [user("order late"), assistant("sorry")];
    for (const [example, message] of [
      ["text", /examples\[1\] has no "messages"/],
      [{ messages, label: 1 }, /examples\[1\] has no label/],
      [{ chosen: messages }, /examples\[1\]: no "rejected"/],
    ] as const) {
      const examples = [{ messages, good: true }, example as unknown as PreferencePair];
      const training = new NeuralRewardTrainer({ dir: false, policy: createTablePolicy(), examples }).train();
      await expect(training).rejects.toMatchObject({ code: "INVALID_DATA", message: expect.stringMatching(message) });
    }
  });

  it("refuses a policy beside a model", () => {
    expect(() => new NeuralRewardTrainer({ dir: false, policy: lastWordPolicy(), model: "x", examples })).toThrow(
      /as well as/,
    );
  });
});
