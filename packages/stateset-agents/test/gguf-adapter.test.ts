/** An adapter trained on a quantised GGUF base, and every way out of it: the same model each time. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../src/agent/multi-turn-agent.ts";
import { buildTokenTree } from "../src/conversation/token-tree.ts";
import { ConversationEnvironment } from "../src/environment/conversation-environment.ts";
import { exportGguf } from "../src/policy/gguf/export-gguf.ts";
import { openPolicy } from "../src/policy/open-policy.ts";
import { rewardFunction } from "../src/reward/define-reward.ts";
import { train } from "../src/training/train.ts";
import { cli } from "./cli.ts";
import { writeRandomBlocks } from "./quantised-gguf.ts";
import { makeTinyModel, temporaryFolder } from "./tiny-model.ts";
import { withoutAmx } from "./without-amx.ts";

withoutAmx();
const python = process.env.STATESET_PYTHON;
const peer = fileURLToPath(new URL("./parity/gguf_adapter.py", import.meta.url));

const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;
const environment = new ConversationEnvironment({
  scenarios: ["Hello there", "Where is it?"].map((text, i) => ({ id: `s${i}`, userResponses: [text] })),
});
const reward = rewardFunction({ name: "e" }, ({ turns }) => {
  const { content } = turns.at(-1)!;
  return [...content].filter((letter) => "aeiou".includes(letter)).length / Math.max(1, content.length);
});
const settings = {
  groupsPerStep: 2,
  groupSize: 4,
  maxTurns: 1,
  learningRate: 0.02,
  warmup: 0,
  schedule: "constant",
} as const;

const sequences = [
  [1, 20, 30, 40, 50, 60],
  [1, 5, 6, 7, 8, 300, 9, 11],
  Array.from({ length: 40 }, (_, i) => 3 + 7 * i),
];

async function scores(model: string, options: { precision?: "f32" } = {}): Promise<number[]> {
  const policy = await openPolicy({ model, threads: 1, ...options });
  const all: number[] = [];
  for (const tokens of sequences) {
    const learn = new Uint8Array(tokens.length).fill(1, 1);
    const { tree } = buildTokenTree([{ tokens: Int32Array.from(tokens), learn }]);
    all.push(...(await policy.forward(tree, { grad: false })).logprobs.slice(1));
  }
  await policy.close();
  return all;
}

const apart = (a: readonly number[], b: readonly number[]) => Math.max(...a.map((x, i) => Math.abs(x - b[i]!)));

async function base(architecture: "llama" | "qwen2", type: "Q8_0" | "Q4_1" | "Q4_K"): Promise<string> {
  const size = type === "Q4_K" ? 256 : 64;
  const sizes = { hidden_size: size, intermediate_size: 2 * size, num_hidden_layers: 2, rope_scaling: undefined };
  const dir = await makeTinyModel(architecture, sizes);
  const path = join(dir, "tokenizer_config.json");
  const chat_template = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  await writeFile(path, JSON.stringify({ ...(JSON.parse(await readFile(path, "utf8")) as object), chat_template }));
  const file = join(temporaryFolder(), `tiny.${type}.gguf`);
  if (type === "Q8_0") await exportGguf({ dir, file, type, name: "tiny" });
  else await writeRandomBlocks(dir, file, type, 5);
  return file;
}

async function withAgent<T>(model: string, use: (agent: MultiTurnAgent) => Promise<T>): Promise<T> {
  const agent = new MultiTurnAgent({ model, lora, threads: 1, seed: 3, sampling: { maxTokens: 8 } });
  await agent.initialize();
  try {
    return await use(agent);
  } finally {
    await agent.close();
  }
}

describe.each([
  ["llama", "Q8_0"],
  ["llama", "Q4_1"],
  ["llama", "Q4_K"],
  ["qwen2", "Q8_0"],
  ["qwen2", "Q4_K"],
] as const)("an adapter trained on a %s in %s", (architecture, type) => {
  let file: string;
  let root: string;
  let run: string;
  let untrained: number[];
  let trained: number[];
  beforeAll(async () => {
    file = await base(architecture, type);
    root = temporaryFolder();
    run = join(root, "run");
    untrained = await scores(file);
    await withAgent(file, async (agent) => {
      expect(agent.policy.plan({ tokenBudget: 64, recompute: false, reference: false }).weights).toBeLessThan(
        1.7 * readFileSync(file).length,
      );
      await train({ ...settings, agent, environment, reward, steps: 3, dir: run });
      await agent.policy.save(join(root, "f32"), { merge: true });
      await agent.policy.save(join(root, "bf16"), { merge: true, dtype: "bf16" });
    });
    trained = await scores(join(run, "final"));
  });

  it("is saved alone, on the path of its base, and has moved far", () => {
    const config = JSON.parse(readFileSync(join(run, "final", "adapter_config.json"), "utf8")) as object;
    expect(config).toMatchObject({ base_model_name_or_path: file, r: 4 });
    expect(existsSync(join(run, "final", "model.safetensors"))).toBe(false);
    expect(apart(trained, untrained)).toBeGreaterThan(0.3);
  });

  it("gives the same log-probs merged: f32 within its rounding, bf16 within its own", async () => {
    const [f32, bf16] = [await scores(join(root, "f32")), await scores(join(root, "bf16"))];
    expect(apart(f32, trained)).toBeLessThan(1e-4);
    expect(apart(bf16, trained)).toBeLessThan(0.2);
  });

  it("gives them as a GGUF file: f32 the bits of the merged model, f16 and q8_0 within their rounding", async () => {
    const bounds = { f32: 0, f16: 0.03, q8_0: 0.25 };
    const merged = await scores(join(root, "f32"));
    for (const [kind, bound] of Object.entries(bounds)) {
      const exported = await cli(["export", run, "--gguf", `${kind}.gguf`, "--type", kind], { cwd: root });
      expect([exported.status, exported.stderr]).toEqual([0, ""]);
      const difference = apart(await scores(join(root, `${kind}.gguf`)), merged);
      expect(difference, kind).toBeLessThanOrEqual(bound);
    }
  });

  it("ends in the same bytes when it is stopped and resumed", async () => {
    const dir = join(root, "stopped");
    await withAgent(file, async (agent) => {
      const stop = new AbortController();
      const callbacks = { onStepEnd: () => stop.abort() };
      await train({ ...settings, agent, environment, reward, steps: 3, dir, signal: stop.signal, callbacks });
    });
    expect(existsSync(join(dir, "final"))).toBe(false);
    await withAgent(file, (agent) => train({ environment, reward, agent, resumeFrom: dir }));
    for (const name of ["metrics.jsonl", "final/adapter_model.safetensors"]) {
      expect(readFileSync(join(dir, name)).equals(readFileSync(join(run, name))), name).toBe(true);
    }
  });

  // Two of them: it takes ten seconds each.
  const told = python && (architecture === "llama") === (type === "Q4_K");
  it.runIf(told)("gives peft's log-probs on the dequantised base (STATESET_PYTHON)", { timeout: 300_000 }, async () => {
    const whole = join(root, "base");
    const policy = await openPolicy({ model: file, precision: "f32", threads: 1 });
    await policy.save(whole);
    await policy.close();
    const request = { base: whole, gguf: file, adapter: join(run, "final"), sequences };
    const stdout = execFileSync(python!, [peer, JSON.stringify(request)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { folder, dequantised } = JSON.parse(stdout.trim().split("\n").at(-1)!) as Record<string, number[] | null>;
    expect(apart(folder!, trained)).toBeLessThan(2e-4);
    // Where the package `gguf` is there, its numbers are the base.
    if (dequantised) expect(apart(dequantised, trained)).toBeLessThan(2e-4);
  });
});
