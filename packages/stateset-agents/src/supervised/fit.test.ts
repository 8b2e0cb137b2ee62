import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { trainPreference } from "../preference/train-preference.ts";
import type { RunWarning } from "../run/event.ts";
import { readTrajectories, trajectorySteps } from "../run/trajectories.ts";
import { fitLearners, tableChats, tableLearner, tablePairs } from "../test-support/table-learners.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { trainSupervised } from "./train-supervised.ts";

const root = mkdtempSync(join(tmpdir(), "fit-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const folder = () => join(root, `run-${++folders}`);
const config = (dir: string) => JSON.parse(readFileSync(join(dir, "config.json"), "utf8"));
const settings = { batchSize: 2, learningRate: 0.05 } as const;

/** A run of SFT that was interrupted after two of four steps. */
async function interrupted(dir: string) {
  const stop = new AbortController();
  const onStepEnd = ({ step }: { step: number }) => void (step === 2 && stop.abort());
  const policy = createTablePolicy();
  const options = { policy, examples: tableChats, ...settings, dir, callbacks: { onStepEnd }, signal: stop.signal };
  const { run } = await trainSupervised(options);
  expect(run).toMatchObject({ status: "interrupted", steps: 2 });
}

describe("a run that learns from data", () => {
  it("stops within a pass, drops the step under way and goes on to the same weights", async () => {
    const options = {
      examples: tableChats,
      heldOut: tableChats,
      ...settings,
      batchSize: 7,
      epochs: 4,
      tokenBudget: 16,
    };
    const whole = createTablePolicy();
    await trainSupervised({ ...options, policy: whole, dir: false });
    // Six rounds (an evaluation, four updates, an evaluation) of so many passes.
    const passes = whole.calls.forward / 6;
    expect(passes).toBeGreaterThan(1);
    for (const at of [0, 2 * passes, 5 * passes]) {
      const dir = folder();
      const policy = createTablePolicy();
      const stop = new AbortController();
      const { forward } = policy;
      policy.forward = (...args) => {
        if (policy.calls.forward === at) stop.abort();
        return forward(...args);
      };
      const { run } = await trainSupervised({ ...options, policy, dir, signal: stop.signal });
      expect(run.status).toBe("interrupted");
      expect(policy.calls.forward).toBe(at + 1);
      expect(policy.gradients.every((value) => value === 0)).toBe(true);
      const again = createTablePolicy();
      const {
        run: second,
        evaluations,
        losses,
      } = await trainSupervised({ ...options, policy: again, resumeFrom: dir });
      expect(second).toMatchObject({ status: "finished", steps: 4 });
      expect(again.parameters).toEqual(whole.parameters);
      expect([evaluations.map(({ step }) => step), losses.length]).toEqual([[0, 4], 4]);
    }
  });

  it("finishes the step under way where passes draw dropout masks, which are counted", async () => {
    const policy = createTablePolicy();
    const lora = { rank: 1, alpha: 1, dropout: 0.1, targetModules: "all-linear" as const };
    const model = { ...policy.model, lora };
    const stop = new AbortController();
    const forward: typeof policy.forward = (...args) => {
      stop.abort();
      return policy.forward(...args);
    };
    const dropping = Object.defineProperties(Object.create(policy), {
      model: { value: model },
      forward: { value: forward },
    });
    const options = {
      policy: dropping,
      examples: tableChats,
      tokenBudget: 16,
      dir: false,
      signal: stop.signal,
    } as const;
    const { run } = await trainSupervised({ ...options, epochs: 3 });
    expect(run).toMatchObject({ status: "interrupted", steps: 1 });
    expect(policy.calls.step).toBe(1);
  });

  it("takes what is left out from the run it goes on with, and says what changed", async () => {
    const dir = folder();
    await interrupted(dir);
    const warnings: RunWarning[] = [];
    const examples = [...tableChats.slice(0, -1), { messages: [...tableChats[0]!.messages] }];
    const { run } = await trainSupervised({
      policy: createTablePolicy(),
      examples,
      resumeFrom: dir,
      epochs: 2,
      callbacks: { onWarning: (warning) => void warnings.push(warning) },
    });
    expect(run).toMatchObject({ status: "finished", steps: 8, config: { ...settings, epochs: 2 } });
    expect(warnings.map(({ kind }) => kind)).toEqual(["options-changed"]);
    expect(warnings[0]!.message).toMatch(/data\.examples\.fingerprint .* → .*, settings\.epochs 1 → 2/);
    expect(config(dir).settings.epochs).toBe(2);
  });

  it("refuses what its place in the data depends on, and leaves the run as it is", async () => {
    const dir = folder();
    await interrupted(dir);
    const events = readFileSync(join(dir, "events.jsonl"), "utf8");
    const again = { policy: createTablePolicy(), examples: tableChats, resumeFrom: dir };
    for (const [change, message] of [
      [{ examples: tableChats.slice(1) }, /data\.learnt 7 → 6/],
      [{ batchSize: 3 }, /settings\.batchSize 2 → 3/],
      [{ seed: 9 }, /settings\.seed 0 → 9/],
    ] as const) {
      const resuming = trainSupervised({ ...again, ...change });
      await expect(resuming).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", message });
    }
    const other = trainPreference({ policy: createTablePolicy(), pairs: tablePairs, resumeFrom: dir });
    await expect(other).rejects.toThrow(/is not one of trainPreference\(\): it is sft/);
    const rl = train({ agent: tableAgent().agent, environment: tableEnvironment(), resumeFrom: dir });
    await expect(rl).rejects.toThrow(/is not one of train\(\): it is sft/);
    expect(readFileSync(join(dir, "events.jsonl"), "utf8")).toBe(events);
  });

  it("goes on after three updates that were not finite, once the data is mended", async () => {
    const dir = folder();
    const policy = createTablePolicy();
    const { forward } = policy;
    policy.forward = async (...args) => {
      const pass = await forward(...args);
      pass.logprobs.fill(Number.NaN);
      return pass;
    };
    const broken = trainSupervised({ policy, examples: tableChats, ...settings, dir });
    await expect(broken).rejects.toMatchObject({
      code: "NOT_FINITE",
      message: /loss was not finite.*A checkpoint was saved.*resume/,
    });
    const result = await trainSupervised({ policy: createTablePolicy(), examples: tableChats, resumeFrom: dir });
    expect(result).toMatchObject({ steps: 4, skipped: [1, 2, 3], run: { status: "finished" } });
    expect(result.losses.map(Number.isFinite)).toEqual([false, false, false, true]);
  });

  it("says what of the data was cut, and keeps the checkpoint with the lowest held-out loss", async () => {
    const dir = folder();
    const policy = createTablePolicy({ contextLength: 8 });
    const said: string[] = [];
    const callbacks = [{ onWarning: ({ message }: RunWarning) => void said.push(message) }];
    // What is learnt is not what is measured, so the first evaluation after a step is the best one.
    const heldOut = [{ messages: [tableChats[0]!.messages[0]!, { role: "assistant" as const, content: "broken" }] }];
    const options = { policy, examples: tableChats, heldOut, ...settings, dir, callbacks };
    const { run, evaluations } = await trainSupervised({ ...options, learningRate: 0.5, epochs: 3, evaluateEvery: 1 });
    expect(said).toEqual(["Of 7 examples 1 were cut at the model's context."]);
    expect(run.best!.score).toBe(Math.min(...evaluations.slice(1).map(({ loss }) => loss)));
    const best = readFileSync(join(dir, "checkpoints", "best"), "utf8");
    expect(best).toBe(`step-${String(run.best!.step).padStart(6, "0")}`);
    expect(readdirSync(join(dir, "checkpoints"))).toContain(best);
  });

  it("takes up an IPO run as one, on the reference's numbers that it kept", async () => {
    const dir = folder();
    const stop = new AbortController();
    const callbacks = { onStepEnd: () => stop.abort() };
    await tableLearner("ipo").run({ dir, callbacks, signal: stop.signal });
    const policy = createTablePolicy({ spread: 1 });
    let asked = 0;
    const { reference } = policy;
    policy.reference = (of) => {
      asked++;
      return reference(of);
    };
    const heldOut = tablePairs.slice(0, 2);
    const { run } = await trainPreference({ policy, pairs: tablePairs, heldOut, resumeFrom: dir });
    expect([run.status, asked, config(dir).learner]).toEqual(["finished", 0, "ipo"]);
    const whole = tableLearner("ipo");
    await whole.run({ dir: false });
    expect(policy.parameters).toEqual(whole.policy.parameters);
    const others = trainPreference({ policy, pairs: tablePairs, heldOut: tablePairs.slice(1, 3), resumeFrom: dir });
    await expect(others).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", message: /data\.heldOut\.fingerprint/ });
    const dpo = trainPreference({ policy, pairs: tablePairs, heldOut, loss: "dpo", resumeFrom: dir });
    await expect(dpo).rejects.toThrow(/was trained with ipo, not with dpo/);
  });

  it("asks the base model again for pairs that changed", async () => {
    const dir = folder();
    const given = { pairs: tablePairs, reference: "base", ...settings } as const;
    await trainPreference({ ...given, policy: createTablePolicy(), dir });
    const pairs = tablePairs.map((pair) => ({ ...pair, rejected: "really" }));
    const { run } = await trainPreference({ policy: createTablePolicy(), pairs, epochs: 2, resumeFrom: dir });
    expect(run).toMatchObject({ status: "finished", steps: 8 });
    expect(run.warnings.map(({ kind }) => kind)).toEqual(["options-changed"]);
  });
});

describe("the record of what was learnt from", () => {
  it.each(fitLearners)("of %s holds its examples with their tokens", async (learner) => {
    const dir = join(root, `recorded-${learner}`);
    const { policy, run } = tableLearner(learner);
    await run({ dir, epochs: 1 });
    expect(trajectorySteps(dir)).toEqual([1]);
    const records = readTrajectories(dir, 1);
    expect(records.length).toBeGreaterThan(0);
    for (const { messages, chains, step, side } of records) {
      expect(step).toBe(1);
      expect(messages.at(-1)?.role).toBe("assistant");
      expect(chains).toHaveLength(1);
      // The reply's words are in the tokens that are written.
      expect(policy.tokenizer.decode(chains[0]!.columns!.tokens)).toContain(messages.at(-1)!.content);
      expect(side !== undefined).toBe(learner !== "sft" && learner !== "value-function");
      if (learner !== "reward-model") expect(chains[0]!.columns!.learn).toContain(1);
    }
    if (learner === "dpo")
      expect(records.map(({ group, side }) => [group, side])[1]).toEqual([records[0]!.group, "rejected"]);
  });
});
