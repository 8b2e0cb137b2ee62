import { cpSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../../test/temporary-folder.ts";
import { readTrajectories } from "../../../run/trajectories.ts";
import { flipBit } from "../../../test-support/run-folder.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../../../test-support/table-training.ts";
import { train } from "../../../training/train.ts";
import type { TrainOptions } from "../../../training/train-options.ts";
import { decodePacked, type TokensHead } from "../../api/index.ts";
import { createReader } from "../create-reader.ts";

const root = temporaryFolder();
const runs = join(root, "runs");
const reader = createReader({ folders: [runs], cacheDir: join(root, "cache") });

async function trained(name: string, options: Record<string, unknown>) {
  const dir = join(runs, name);
  const { run } = await train({
    learningRate: 1,
    schedule: "constant",
    warmup: 0,
    groupsPerStep: 3,
    groupSize: 4,
    steps: 2,
    updatesPerRollout: 2,
    dir,
    name,
    agent: tableAgent().agent,
    environment: tableEnvironment(),
    reward: new FunctionReward(politeShare),
    trajectories: { every: 1, perStep: 3, tokens: true },
    checkpoint: { every: 0 },
    ...options,
  } as TrainOptions);
  return { dir, metrics: run.metrics };
}

const decoded = async (key: string) => {
  const bytes = await reader.tokens(key);
  return decodePacked<TokensHead>(bytes.buffer);
};

describe("the tokens of a conversation", { timeout: 60_000 }, () => {
  it("have the numbers that were recorded, each on its token", async () => {
    const { dir } = await trained("ppo", { algorithm: "ppo" });
    const records = readTrajectories(dir, 2);
    for (const [line, { chains }] of records.entries()) {
      const { head, columns } = await decoded(`ppo:2:${line}`);
      expect(head.chains.map(({ length }) => length)).toEqual(chains.map(({ length }) => length));
      for (const [c, { columns: own }] of chains.entries()) {
        const { from, length } = head.chains[c]!;
        const part = (name: string) => columns[name]!.subarray(from, from + length);
        expect([...part("tokens")]).toEqual([...own!.tokens]);
        expect([...part("turn")]).toEqual([...own!.turn]);
        const places = [...own!.learn.keys()].filter((i) => i > 0 && own!.learn[i] === 1);
        for (const name of ["advantage", "ratio", "entropy", "reference", "value"] as const) {
          expect(places.map((i) => part(name)[i])).toEqual([...own![name]]);
          expect([...part(name)].filter((value, i) => !places.includes(i) && !Number.isNaN(value))).toEqual([]);
        }
        expect(places.map((i) => part("logprobs")[i])).toEqual(places.map((i) => own!.logprobs[i]));
        expect(part("logprobs")[0]).toBeNaN();
      }
    }
  });

  /** One pass sees no clip, so the metric is half of what the second one clipped. */
  it.each([
    ["grpo", {}],
    ["dapo", { overlongPenalty: 0 }],
    ["reinforce++", {}],
    ["cispo", { ratioCap: 1.2 }],
    ["gmpo", { epsilonLow: 0.2, epsilonHigh: 0.2 }],
    ["ppo", {}],
  ])("of %s are marked as clipped where the loss clipped them", async (algorithm, options) => {
    const { dir, metrics } = await trained(`clip-${algorithm}`, { algorithm, ...options });
    const seen: number[] = [];
    for (const { step, clipFraction } of metrics.filter((one) => one.step > 0)) {
      let [clipped, scored] = [0, 0];
      for (const line of readTrajectories(dir, step).keys()) {
        const { columns } = await decoded(`clip-${algorithm}:${step}:${line}`);
        if (!columns.ratio) continue;
        clipped += [...columns.clipped!].reduce((sum, own) => sum + own, 0);
        scored += [...columns.ratio].filter((ratio) => !Number.isNaN(ratio)).length;
      }
      expect(clipped / scored).toBeCloseTo(2 * clipFraction!, 6);
      seen.push(clipFraction!);
    }
    expect(Math.max(...seen)).toBeGreaterThan(0);
  });

  it.each([["gspo"], ["luspo"]])("of %s are clipped with their whole conversation", async (algorithm) => {
    const { dir, metrics } = await trained(`clip-${algorithm}`, { algorithm });
    const { clipFraction } = metrics.at(-1)!;
    let [clipped, scored] = [0, 0];
    for (const line of readTrajectories(dir, 2).keys()) {
      const { columns } = await decoded(`clip-${algorithm}:2:${line}`);
      if (!columns.ratio) continue;
      const own = [...columns.clipped!].filter((_, i) => !Number.isNaN(columns.ratio![i]!));
      expect(new Set(own).size).toBe(1);
      clipped += own[0]!;
      scored++;
    }
    expect(clipped / scored).toBeCloseTo(2 * clipFraction!, 6);
    expect(clipped).toBeGreaterThan(0);
  });

  it("of GEPO are clipped by the ratio to their group, in the first pass already", async () => {
    /** The share of the first step's conversations, as its last pass left them. */
    const shareOf = async (name: string, updatesPerRollout: number) => {
      const { dir, metrics } = await trained(name, {
        algorithm: "gepo",
        epsilonLow: 0.01,
        epsilonHigh: 0.01,
        updatesPerRollout,
      });
      const marked: number[] = [];
      for (const line of readTrajectories(dir, 1).keys()) {
        const { columns } = await decoded(`${name}:1:${line}`);
        if (columns.ratio) marked.push(Math.max(...columns.clipped!));
      }
      const share = marked.reduce((sum, own) => sum + own, 0) / marked.length;
      return { share, metric: metrics.find(({ step }) => step === 1)!.clipFraction };
    };
    const first = await shareOf("gepo-once", 1);
    const second = await shareOf("gepo-twice", 2);
    expect(first.metric).toBeCloseTo(first.share, 6);
    expect((first.share + second.share) / 2).toBeCloseTo(second.metric!, 6);
    expect(first.share).toBeGreaterThan(0);
  });

  it("say where no tokenizer is, and spell what one says where there is", async () => {
    const { dir } = await trained("spelt", { algorithm: "grpo", steps: 1 });
    const { head: plain } = await decoded("spelt:1:0");
    expect([plain.tokenizer, plain.pieces[0]!.text]).toEqual([null, undefined]);
    expect(plain.why).toMatch(/No tokenizer of the model table/);
    const { starterModelPath } = await import("@stateset-agents/starter-model");
    const path = join(dir, "config.json");
    const config = JSON.parse(readFileSync(path, "utf8")) as { model: { name: string } };
    // As a run that was made elsewhere names the bundled model.
    config.model.name = "/elsewhere/node_modules/@stateset-agents/starter-model/model";
    writeFileSync(path, JSON.stringify(config));
    const { head } = await decoded("spelt:1:0");
    expect(head.tokenizer).toBe(starterModelPath);
    expect(head.pieces.every(({ text, bytes }) => text !== undefined || bytes !== undefined)).toBe(true);
  });

  it("are refused where they were not recorded, with how to record them, and by name where their file is damaged", async () => {
    await trained("none", { algorithm: "grpo", steps: 1, trajectories: { every: 1, perStep: 1, tokens: false } });
    await expect(reader.tokens("none:1:0")).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/trajectories: \{ tokens: true \}/) as string,
    });
    const { dir } = await trained("damaged", { algorithm: "grpo", steps: 1 });
    const bin = join(dir, "trajectories", "step-000001.bin");
    expect(existsSync(bin)).toBe(true);
    const copy = `${bin}.copy`;
    cpSync(bin, copy);
    flipBit(bin);
    await expect(reader.tokens("damaged:1:0")).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/step-000001\.bin is damaged/) as string,
    });
    const { rows } = await reader.trajectories("damaged", {});
    const group = await reader.group(rows[0]!.group!);
    expect(group.problems[0]!.message).toMatch(/damaged/);
    expect(group.members.length).toBe(4);
    cpSync(copy, bin);
    await expect(reader.tokens("damaged:1:0")).resolves.toBeInstanceOf(Uint8Array);
  });
});
