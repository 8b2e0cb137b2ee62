/**
 * `npm run bench:gpu`: what the torch engine does on one GPU, through the socket, with random models of Qwen3's shapes in bf16.
 * STATESET_PYTHON (default python3) has torch, transformers and peft. --only NAME,… for some measurements (`all` below), --models DIR
 * where models are made, --device cpu to try it without a GPU, --no-write, --json (last line: the figures).
 */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { starterModelPath } from "@stateset-agents/starter-model";
import { openPolicy } from "../../packages/stateset-agents/src/policy/open-policy.ts";
import type { LoraOptions, Policy } from "../../packages/stateset-agents/src/policy/policy.ts";
import { decodeSpeed, mismatch } from "./decode.ts";
import { demoRun, idleShare, secondsToReward } from "./learning.ts";
import { batchOf, chainsOf, passSeconds, tooLarge } from "./passes.ts";
import { type Figures, keep } from "./report.ts";
import { flopsPerToken, modelOf, type Shape } from "./shapes.ts";

const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    device: { type: "string", default: "cuda" },
    models: { type: "string", default: join(tmpdir(), "stateset-gpu-models") },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const python = process.env.STATESET_PYTHON ?? "python3";
const beside = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const places = { python, dir: flags.models, script: beside("./make_model.py") };
const all = [
  "passes",
  "long",
  "tree",
  "lora",
  "decode",
  "generate",
  "mismatch",
  "idle",
  "demo",
  "embedded",
  "signs",
  "idle-0.6B",
  "1.7B",
  "8B",
  "memory",
];
const wanted = flags.only?.split(",") ?? all;
for (const name of wanted) if (!all.includes(name)) throw new Error(`--only ${name}: there is ${all.join(", ")}.`);
/** Dense bf16 of an H200 by its datasheet; shares of it are given for comparison with others who use the same number. */
const peakFlops = 990e12;

const torch = { python, logDir: flags.models, device: flags.device as "cuda" | "cpu" };
mkdirSync(flags.models, { recursive: true });
const figures: Figures = {};
const lora: LoraOptions = { rank: 16, alpha: 32, dropout: 0, targetModules: "all-linear" };
const vocab = 151_936;

async function on<T>(model: string, options: object, work: (policy: Policy) => Promise<T>): Promise<T> {
  const policy = await openPolicy({ model, engine: "torch", torch, ...options });
  try {
    return await work(policy);
  } finally {
    await policy.close();
  }
}

const isWanted = (name: string) => wanted.includes(name);

/** One policy for all of `names`, where opening it takes longer than what is measured. */
async function measure(names: readonly string[], work: () => Promise<void>): Promise<void> {
  if (!names.some(isWanted)) return;
  try {
    await work();
  } catch (error) {
    // One that fails must not cost the others, where an hour of a GPU is dear.
    process.exitCode = 1;
    console.error(`${names.join(", ")}:`, error);
  }
  // At once: what comes after may take longer than the machine is lent.
  if (flags.write) keep(figures, python);
}

function tell(name: string, value: Figures[string]): void {
  figures[name] = value;
  console.log(`${name}: ${JSON.stringify(value)}`);
}

const eight = { groups: 8, replies: 1, promptTokens: 0, replyTokens: 2048 };
const long = { groups: 1, replies: 1, promptTokens: 0, replyTokens: 16_384 };
const tree = { groups: 4, replies: 16, promptTokens: 1024, replyTokens: 256 };

async function speed(name: string, shape: Shape, policy: Policy, work: typeof eight, options = {}): Promise<number> {
  const batch = batchOf(chainsOf(work, vocab));
  const { seconds, first } = await passSeconds(policy, batch, options);
  const tokens = batch.merged.tree.tokens.length;
  const seen = work.replyTokens / 2;
  const mfu = (tokens * flopsPerToken(shape, seen)) / seconds / peakFlops;
  tell(name, { tokensPerSecond: tokens / seconds, mfu, first });
  return tokens / seconds;
}

const small = () => modelOf("0.6B", places);
let full = 0;
await measure(["passes", "long", "tree"], () =>
  on(small(), {}, async (policy) => {
    if (isWanted("passes")) full = await speed("0.6B full, 8 × 2k", "0.6B", policy, eight);
    if (isWanted("long")) await speed("0.6B full, 1 × 16k", "0.6B", policy, long);
    if (!isWanted("tree")) return;
    const chains = chainsOf(tree, vocab);
    const merged = await passSeconds(policy, batchOf(chains), { repeat: 4 });
    // The same conversations, each in full, a quarter at a time: all at once they take four times the memory.
    const quarter = chains.slice(0, 16);
    const packed = await passSeconds(policy, batchOf(quarter, false), { repeat: 4 });
    tell("tree of 4 × 16 replies against packed", {
      times: (4 * packed.seconds) / merged.seconds,
      seconds: merged.seconds,
    });
  }),
);
await measure(["lora"], () =>
  on(small(), { lora }, async (policy) => {
    const adapted = await speed("0.6B LoRA r16, 8 × 2k", "0.6B", policy, eight);
    if (full > 0) tell("0.6B LoRA against full", { times: adapted / full });
  }),
);
await measure(["decode"], () =>
  on(small(), { slots: 256 }, async (policy) => {
    tell("decode 0.6B, batch 64, prompt 512", await decodeSpeed(policy, 64));
    tell("decode 0.6B, batch 256, prompt 512", await decodeSpeed(policy, 256, { warmUp: 3 }));
  }),
);
await measure(["generate"], async () => {
  const script = beside("./generate.py");
  const out = execFileSync(python, [script, small()], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const { tokensPerSecond } = JSON.parse(out.trim().split("\n").at(-1)!) as { tokensPerSecond: number };
  const ours = figures["decode 0.6B, batch 64, prompt 512"];
  const times = ours && { times: (ours.whole as number) / tokensPerSecond };
  tell("transformers.generate, batch 64", { tokensPerSecond, ...times });
});
const questions = ["Where is my order?", "The app crashes.", "I was billed twice.", "How do I close my account?"];
await measure(["mismatch"], () =>
  on(starterModelPath, {}, async (policy) => {
    tell("log-prob mismatch, starter weights", await mismatch(policy, questions));
  }),
);
await measure(["idle"], () =>
  on(starterModelPath, {}, async (policy) => tell("GRPO step, starter", await idleShare(policy))),
);
await measure(["demo"], () =>
  on(starterModelPath, {}, async (policy) => tell("demo to held-out 0.9", await secondsToReward(policy))),
);
await measure(["embedded"], async () => {
  // Beside it, in the same run: what the demo takes without a GPU.
  const policy = await openPolicy({ threads: 2 });
  tell("demo to held-out 0.9, embedded engine on two cores", await secondsToReward(policy));
  await policy.close();
});
await measure(["signs"], async () => {
  // Side by side on the one GPU, a worker each: nothing is timed here.
  const runs = [1, 2, 3].flatMap((seed) => (["polite", "flipped"] as const).map((kind) => ({ seed, kind })));
  await Promise.all(
    runs.map(({ seed, kind }) =>
      on(starterModelPath, {}, async (policy) =>
        tell(`demo, ${kind}, seed ${seed}`, await demoRun(policy, seed, kind)),
      ),
    ),
  );
});
await measure(["idle-0.6B"], () =>
  on(small(), {}, async (policy) => tell("GRPO step, 0.6B shape", await idleShare(policy, { steps: 12, warm: 6 }))),
);
await measure(["1.7B"], () =>
  on(modelOf("1.7B", places), {}, async (policy) => {
    await speed("1.7B full, 8 × 2k", "1.7B", policy, eight, { repeat: 4 });
  }),
);
await measure(["8B"], () =>
  on(modelOf("8B", places), { lora }, async (policy) => {
    await speed("8B LoRA r16, recompute, 8 × 2k", "8B", policy, eight, { repeat: 3, recompute: true });
  }),
);
await measure(["memory"], () =>
  on(small(), {}, async (policy) => tell("0.6B, a pass of 524,288 tokens", await tooLarge(policy, vocab))),
);

if (flags.json) console.log(JSON.stringify(figures));
