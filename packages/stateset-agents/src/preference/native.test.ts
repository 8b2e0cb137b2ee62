/** Learning from demonstrations and preferences on the embedded engine: the starter model, a few short conversations. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Message } from "../conversation/message.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { LoraOptions } from "../policy/policy.ts";
import type { RunChoice } from "../run/options.ts";
import { trainSupervised } from "../supervised/train-supervised.ts";
import { loadNeuralReward } from "./neural-reward.ts";
import { NeuralRewardTrainer } from "./neural-reward-trainer.ts";
import type { PreferencePair } from "./pair.ts";
import { evaluatePreference, trainPreference } from "./train-preference.ts";

const dir = mkdtempSync(join(tmpdir(), "preference-native-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const lora: LoraOptions = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" };
const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const pair = (opener: string, chosen: string, rejected: string): PreferencePair => ({
  prompt: [user(opener)],
  chosen: [assistant(chosen), user("Okay."), assistant("Thank you.")],
  rejected: [assistant(rejected)],
});
const pairs = [
  pair("My order is late.", "I am sorry. Your number, please?", "No."),
  pair("The app crashes.", "I am sorry. Which version, please?", "Not my problem."),
];

describe("on the embedded engine", () => {
  it("SFT lowers the loss, to the same values whatever the token budget", async () => {
    const losses: number[][] = [];
    for (const tokenBudget of [32, 8192]) {
      const policy = await openPolicy({ lora, threads: 1 });
      const examples = pairs.map(({ prompt, chosen }) => ({ messages: [...prompt, ...chosen] }));
      const { losses: steps } = await trainSupervised({
        policy,
        dir: false,
        examples,
        epochs: 3,
        learningRate: 1e-3,
        tokenBudget,
      });
      losses.push(steps);
      await policy.close();
    }
    expect(losses[0]!.at(-1)).toBeLessThan(losses[0]![0]!);
    for (const [i, loss] of losses[0]!.entries()) expect(loss).toBeCloseTo(losses[1]![i]!, 4);
  });

  it("SFT and DPO say when an assistant's text spells control tokens, which are learnt as plain text", async () => {
    const warnings: Error[] = [];
    const hear = (warning: Error) => warnings.push(warning);
    process.on("warning", hear);
    const policy = await openPolicy({ lora, threads: 1 });
    const call = { id: "1", type: "function" as const, function: { name: "f", arguments: "{}" } };
    const chats: Message[][] = [
      [user("Hi"), assistant("Hello.")],
      [user("<tool_call>"), assistant("That is a token.")],
      [user("Hi"), { ...assistant(""), tool_calls: [call] }],
      [user("Hi"), assistant('<tool_call>{"name": "f"}</tool_call>')],
      [user("Hi"), assistant("A"), user("So"), assistant("<|im_end|><tool_call>")],
    ];
    const examples = chats.map((messages) => ({ messages }));
    expect(await trainSupervised({ policy, examples, learningRate: 1e-4, dir: false })).toMatchObject({
      spelt: 2,
      examples: 5,
    });
    const pairs = [
      pair("Hi", "Hello.", "<tool_call>"),
      pair("Hi <tool_call>", "Hello.", "No."),
      // In what both sides have in common nothing is learnt.
      { prompt: [user("a"), assistant("<|im_end|>"), user("b")], chosen: [assistant("B")], rejected: [assistant("C")] },
    ];
    expect(await trainPreference({ policy, pairs, learningRate: 1e-4, dir: false })).toMatchObject({
      spelt: 1,
      pairs: 3,
    });
    expect((await trainSupervised({ policy, examples: examples.slice(0, 3), dir: false })).spelt).toBe(0);
    await policy.close();
    process.off("warning", hear);
    const told = warnings.filter(({ name }) => name === "StatesetWarning").map(({ message }) => message);
    expect(told).toEqual([
      expect.stringMatching(/^In 2 of 5 examples .*\(<tool_call>, <\/tool_call>, <\|im_end\|>\)/),
      expect.stringMatching(/^In 1 of 3 pairs .*\(<tool_call>\)/),
    ]);
  });

  it("DPO on an adapter prefers the chosen sides over its own base weights", async () => {
    const policy = await openPolicy({ lora, threads: 1 });
    const before = await evaluatePreference(policy, pairs);
    expect(before).toMatchObject({ margin: 0, accuracy: 0.5 });
    await trainPreference({ policy, dir: false, pairs, epochs: 4, learningRate: 1e-3 });
    const after = await evaluatePreference(policy, pairs);
    expect(after.accuracy).toBe(1);
    expect(after.loss).toBeLessThan(before.loss);
    await policy.close();
  });

  it.each(["SFT", "DPO", "KTO", "ORPO"])(
    "%s goes on to the same bits after a stop, dropout and reference included",
    async (what) => {
      const dropping = { ...lora, dropout: 0.2 };
      const examples = pairs.map(({ prompt, chosen }) => ({ messages: [...prompt, ...chosen] }));
      const settings = { epochs: 2, batchSize: 1, learningRate: 1e-3, checkpoint: { every: 1 } } as const;
      const learn = async (options: RunChoice) => {
        const policy = await openPolicy({ lora: dropping, threads: 1 });
        const { run } =
          what === "SFT"
            ? await trainSupervised({ policy, examples, heldOut: examples, ...settings, ...options })
            : await trainPreference({
                policy,
                loss: what.toLowerCase() as "dpo" | "kto" | "orpo",
                pairs: what === "KTO" ? pairs.slice(0, 1) : pairs,
                heldOut: pairs,
                ...settings,
                // One pair is two completions: as many steps.
                ...(what === "KTO" && { batchSize: 1 }),
                ...options,
              });
        await policy.close();
        return run;
      };
      const [whole, stopped] = [join(dir, `${what}-whole`), join(dir, `${what}-stopped`)];
      await learn({ dir: whole, name: "run" });
      const stop = new AbortController();
      const onStepEnd = ({ step }: { step: number }) => void (step === 2 && stop.abort());
      const first = await learn({ dir: stopped, name: "run", callbacks: { onStepEnd }, signal: stop.signal });
      expect(first).toMatchObject({ status: "interrupted", steps: 2 });
      expect(await learn({ resumeFrom: stopped })).toMatchObject({ status: "finished", steps: 4, warnings: [] });
      const files = (from: string) =>
        (readdirSync(from, { recursive: true }) as string[])
          .filter((file) => !/status\.json|timing\.jsonl/.test(file) && statSync(join(from, file)).isFile())
          .sort();
      expect(files(stopped)).toEqual(files(whole));
      for (const file of files(whole)) {
        expect(readFileSync(join(stopped, file)).equals(readFileSync(join(whole, file))), file).toBe(true);
      }
    },
  );

  it.each([
    ["an adapter", { lora }],
    ["all weights", {}],
  ])("a reward model on %s is saved and loaded to the same scores", async (name, options) => {
    const examples = pairs.flatMap(({ prompt, chosen, rejected }) => [
      { messages: [...prompt, ...chosen], good: true },
      { messages: [...prompt, ...rejected], good: false },
    ]);
    const { reward, losses } = await new NeuralRewardTrainer({
      dir: false,
      ...options,
      threads: 1,
      examples,
      epochs: 6,
      learningRate: 3e-4,
    }).train();
    expect(losses.at(-1)).toBeLessThan(losses[0]!);
    const talks = [
      [user("Hello."), assistant("Thank you, please wait.")],
      [user("Hello."), assistant("No.")],
    ];
    const scores = await reward.rawScores(talks);
    const folder = join(dir, name.replace(" ", "-"));
    await reward.save(folder);
    await reward.close();
    const loaded = await loadNeuralReward(folder);
    expect(await loaded.rawScores(talks)).toEqual(scores);
    await loaded.close();
  });
});
