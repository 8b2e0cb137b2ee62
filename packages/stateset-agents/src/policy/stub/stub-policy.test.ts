import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import type { Message } from "../../conversation/message.ts";
import { openPolicy } from "../open-policy.ts";
import { defaultSampling, type Policy, type Sampling, type TokenTree } from "../policy.ts";
import { createStubPolicy } from "./stub-policy.ts";

const ask = (policy: Policy, messages: Message[] = [{ role: "user", content: "Hi" }]) =>
  policy.tokenizer.extend(undefined, messages, { addGenerationPrompt: true }).tokens;

const sampling = (part: Partial<Sampling> = {}): Sampling => ({ ...defaultSampling, ...part });

const tree: TokenTree = {
  tokens: Int32Array.of(1, 2, 3),
  nodeStart: Int32Array.of(0, 3),
  nodeParent: Int32Array.of(-1),
  wanted: Uint8Array.of(0, 1, 1),
};

describe("a stub policy", () => {
  it("says its replies in turn, marks them, and gives uniform log-probs", async () => {
    const policy = createStubPolicy({ replies: ["One 🙂", "Two"] });
    const messages: Message[] = [{ role: "user", content: "Hi" }];
    const said: string[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const [sample] = await policy.sample([{ tokens: ask(policy, messages), sampling: sampling(), seed: 5 }]);
      said.push(sample!.text);
      expect(sample!.stub).toBe(true);
      expect(sample!.finishReason).toBe("stop");
      expect(sample!.tokens.at(-1)).toBe(policy.model.endTokens[0]);
      expect(new Set(sample!.logprobs)).toEqual(new Set([Math.fround(-Math.log(policy.model.vocabSize))]));
      expect(sample!.logprobs).toHaveLength(sample!.tokens.length);
      messages.push({ role: "assistant", content: sample!.text }, { role: "user", content: "And?" });
    }
    expect(said.slice(0, 2).sort()).toEqual(["One 🙂", "Two"]);
    expect(said.slice(2)).toEqual(said.slice(0, 2));
    expect(policy.model).toMatchObject({ stub: true, architecture: "stub", parameters: 0, name: "stub://scripted" });
  });

  it("depends on the seed and the prompt alone, whatever else is asked", async () => {
    const policy = createStubPolicy({ replies: ["a", "b", "c", "d"] });
    const request = (seed: number) => ({ tokens: ask(policy), sampling: sampling(), seed });
    const together = await policy.sample(Array.from({ length: 12 }, (_, seed) => request(seed)));
    const alone = await Promise.all(together.map(async (_, seed) => (await policy.sample([request(seed)]))[0]));
    expect(alone).toEqual(together);
    expect(new Set(together.map(({ text }) => text)).size).toBeGreaterThan(1);
  });

  it("asks a reply function, with prompt and turn", async () => {
    const policy = createStubPolicy({ replies: ({ prompt, turn }) => `${turn}:${prompt.includes("Hi")}` });
    const messages: Message[] = [
      { role: "user", content: "Hi" },
      { role: "assistant", content: "x" },
      { role: "user", content: "y" },
    ];
    const [sample] = await policy.sample([{ tokens: ask(policy, messages), sampling: sampling(), seed: 1 }]);
    expect(sample!.text).toBe("1:true");
  });

  it("streams whole characters, and the pieces are the text", async () => {
    const policy = createStubPolicy({ replies: ["Zoë 👩‍🚀 done"] });
    const pieces: string[] = [];
    const [sample] = await policy.sample([{ tokens: ask(policy), sampling: sampling(), seed: 1 }], {
      onToken: ({ text }) => pieces.push(text),
    });
    expect(pieces.join("")).toBe(sample!.text);
    expect(pieces).toHaveLength(sample!.tokens.length);
    expect(pieces.join("")).not.toContain("\uFFFD");
  });

  it("keeps to maxTokens, to the context and to stop texts, and never streams a stop text", async () => {
    const policy = createStubPolicy({ replies: ["first. END second"], contextLength: 64 });
    const run = async (part: Partial<Sampling>) => {
      let streamed = "";
      const onToken = ({ text }: { text: string }) => {
        streamed += text;
      };
      const [sample] = await policy.sample([{ tokens: ask(policy), sampling: sampling(part), seed: 1 }], { onToken });
      expect(streamed).toBe(sample!.text);
      return sample!;
    };
    expect(await run({ maxTokens: 5 })).toMatchObject({ text: "first", finishReason: "length" });
    expect(await run({ stop: ["END", "never"] })).toMatchObject({ text: "first. ", finishReason: "stop" });
    const dot = policy.tokenizer.encode("first.").at(-1)!;
    expect(await run({ stopTokens: [dot] })).toMatchObject({ text: "first.", finishReason: "stop" });
    expect(await run({ stop: ["ENDING"] })).toMatchObject({ text: "first. END second" });
    expect(await run({ stop: ["d no"], maxTokens: 17 })).toMatchObject({ text: "first. END second" });
    const long = { tokens: new Int32Array(60), sampling: sampling(), seed: 1 };
    expect((await policy.sample([long]))[0]).toMatchObject({ text: "firs", finishReason: "length" });
    const over = { ...long, tokens: new Int32Array(64) };
    await expect(policy.sample([long, over])).rejects.toThrow(/Request 1 has 64 prompt tokens/);
  });

  it("stops when aborted", async () => {
    const policy = createStubPolicy({ replies: ["x".repeat(1000)] });
    const abort = new AbortController();
    let count = 0;
    const [first, second] = await policy.sample(
      [1, 2].map((seed) => ({ tokens: ask(policy), sampling: sampling({ maxTokens: 2000 }), seed })),
      { signal: abort.signal, onToken: () => ++count === 100 && abort.abort() },
    );
    expect(first).toMatchObject({ finishReason: "aborted", text: "x".repeat(100) });
    expect(second).toMatchObject({ finishReason: "aborted", text: "" });
  });

  it("refuses to be trained, saved or scored, and says what to do", async () => {
    const policy = createStubPolicy();
    const refusals = [
      () => policy.forward(tree),
      () => policy.backward({ logprobs: new Float32Array(3), release() {} }, {}),
      () => policy.step({ learningRate: 1 }),
      () => policy.reference(),
      () => policy.addValueHead(),
      () => policy.vector("parameters"),
      () => policy.save("nowhere"),
      () => policy.snapshot("nowhere"),
    ];
    for (const refusal of refusals) {
      await expect(refusal()).rejects.toMatchObject({ code: "NOT_TRAINABLE", hint: expect.stringContaining("dryRun") });
    }
  });

  it("lets a dry run through without learning, and leaves no file that looks like a model", async () => {
    const policy = createStubPolicy({ dryRun: true });
    await expect(policy.forward(tree, { values: true })).rejects.toThrow(/addValueHead/);
    await policy.addValueHead();
    const pass = await policy.forward(tree, { entropy: true, values: true });
    const uniform = Math.fround(-Math.log(policy.model.vocabSize));
    expect(pass.logprobs).toEqual(Float32Array.of(0, uniform, uniform));
    expect(pass.entropy).toEqual(Float32Array.of(0, -uniform, -uniform));
    expect(pass.values).toEqual(new Float32Array(3));
    await policy.backward(pass, { logprobs: Float32Array.of(0, 1, 1) });
    expect(await policy.step({ learningRate: 1 })).toMatchObject({ gradNorm: 0, applied: true });
    expect(await (await policy.reference()).logprobs(tree)).toEqual(pass.logprobs);
    const dir = temporaryFolder();
    await policy.save(join(dir, "model"));
    await policy.snapshot(join(dir, "snapshot"));
    await policy.restore(join(dir, "snapshot"));
    await expect(policy.restore(join(dir, "none"))).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect(JSON.parse(await readFile(join(dir, "model", "stub.json"), "utf8"))).toMatchObject({ stub: true });
    await expect(openPolicy({ model: join(dir, "model") })).rejects.toThrow(/a dry run with a stub wrote it/);
  });

  it("is closed after close()", async () => {
    const policy = createStubPolicy();
    await policy.close();
    const request = { tokens: Int32Array.of(1), sampling: sampling(), seed: 1 };
    await expect(policy.sample([request])).rejects.toMatchObject({ code: "POLICY_CLOSED" });
  });

  it("opens through openPolicy by name or by option", async () => {
    const named = await openPolicy({ model: "stub://shop", stub: { replies: ["Hello!"] } });
    expect(named.model).toMatchObject({ name: "stub://shop", stub: true });
    const [sample] = await named.sample([{ tokens: ask(named), sampling: sampling(), seed: 1 }]);
    expect(sample!.text).toBe("Hello!");
    expect((await openPolicy({ stub: {} })).model.stub).toBe(true);
    // @ts-expect-error a misspelt option
    await expect(openPolicy({ stubs: {} })).rejects.toThrow(/Did you mean "stub"/);
    // @ts-expect-error a misspelt option
    expect(() => createStubPolicy({ reples: ["x"] })).toThrow(/Did you mean "replies"/);
    expect(() => createStubPolicy({ model: "gpt" })).toThrow(/stub:\/\//);
    expect(() => createStubPolicy({ replies: [] })).toThrow(/replies/);
  });
});
