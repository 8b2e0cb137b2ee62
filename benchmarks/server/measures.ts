/** What is measured of the server. Every ratio's two sides take turns in one run. */
import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openPolicy } from "stateset-agents/policy";
import { longSystem } from "../grpo/workload.ts";
import { askMany, run, startOurs, startTransformers } from "./processes.ts";
import { conversation } from "./workload.mjs";

export interface Bench {
  /** Of the starter model, whose replies do not end by themselves. */
  model: string;
  /** Where files may be made. */
  folder: string;
  threads: number;
  /** A look: little of everything. */
  quick: boolean;
  /** A Python with transformers[serving]; a folder with node-llama-cpp. */
  python: string | undefined;
  llama: string | undefined;
}

/** A number to be compared with its aim, and the numbers it is made of. */
export interface Measured {
  value: number;
  /** Least and greatest of the rounds. */
  range?: [number, number];
  parts: Record<string, number>;
  /** The aim, where it follows from what was measured. */
  most?: number;
}

/** A peer that is not installed. */
export class Missing extends Error {}

const perSecond = ({ tokens, ms }: { tokens: number; ms: number }) => (1000 * tokens) / ms;

function quantile(numbers: readonly number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** The middle of what each round gave for a name. */
function middle<Name extends string>(rounds: readonly Readonly<Record<Name, number>>[], name: Name): number {
  return quantile(
    rounds.map((round) => round[name]),
    0.5,
  );
}

function ofRounds(values: readonly number[], parts: Record<string, number>): Measured {
  return { value: quantile(values, 0.5), range: [Math.min(...values), Math.max(...values)], parts };
}

/**
 * Processor time of a token that is sampled without a server, over that of one that is streamed to a client in another process. On one
 * thread: threads that wait for each other use the processor too, the more the fewer are free.
 */
async function engineShare({ model, quick }: Bench): Promise<Measured> {
  const threads = 1;
  const work = { streams: 64, rounds: quick ? 1 : 4, maxTokens: 128 };
  const server = await startOurs({ model, threads, slots: 64 });
  try {
    const load = { url: server.url, model: "bench", ...work };
    await askMany({ ...load, rounds: quick ? 1 : 3 });
    const sides: { engine: number; served: number }[] = [];
    for (let turn = 0; turn < (quick ? 1 : 5); turn++) {
      const plain = await run<{ tokens: number; cpuMs: number }>("ours.mjs", "engine", {
        ...{ model, threads, slots: 64, ...work },
      });
      const before = await server.cpuMs();
      const { tokens } = await askMany(load);
      const cpuMs = (await server.cpuMs()) - before;
      sides.push({ engine: (1000 * plain.cpuMs) / plain.tokens, served: (1000 * cpuMs) / tokens });
    }
    const parts = {
      engineMicrosecondsPerToken: middle(sides, "engine"),
      serverMicrosecondsPerToken: middle(sides, "served"),
    };
    return ofRounds(
      sides.map(({ engine, served }) => engine / served),
      parts,
    );
  } finally {
    await server.end();
  }
}

const againstTransformers =
  (streams: number) =>
  async (bench: Bench): Promise<Measured> => {
    const { model, threads, quick, python } = bench;
    if (!python) throw new Missing("STATESET_PYTHON names no Python with transformers[serving].");
    const work = { streams, rounds: quick ? 1 : 2, maxTokens: quick ? 16 : 64 };
    const server = await startOurs({ model, threads });
    const ways: Record<string, number> = {};
    const ours: number[] = [];
    try {
      for (const [way, more] of [
        ["transformersOneByOne", []],
        ["transformersContinuousBatching", ["--continuous-batching"]],
      ] as const) {
        // As warm as it gets: the first replies are those of code that is not compiled yet.
        await askMany({ url: server.url, model: "bench", ...work, rounds: 3 });
        ours.push(perSecond(await askMany({ url: server.url, model: "bench", ...work })));
        try {
          const peer = await startTransformers(python, model, more);
          try {
            await askMany({ url: peer.url, model, ...work, rounds: 1 });
            ways[way] = perSecond(await askMany({ url: peer.url, model, ...work, rounds: 1 }));
          } finally {
            await peer.end();
          }
        } catch (error) {
          // One of its ways may not work on a processor.
          console.error(`${way}: ${(error as Error).message}`);
        }
      }
    } finally {
      await server.end();
    }
    const best = Math.max(...Object.values(ways));
    if (!(best > 0)) throw new Missing("transformers serve answered in neither of its ways.");
    return ofRounds(
      ours.map((rate) => rate / best),
      { ours: quantile(ours, 0.5), ...ways },
    );
  };

/** Ours with its server and clients, theirs without either. */
async function llamaCpp16({ model, folder, threads, quick, llama }: Bench): Promise<Measured> {
  if (!llama) throw new Missing("STATESET_LLAMA names no folder where node-llama-cpp is installed.");
  const gguf = join(folder, "bench.gguf");
  const cli = fileURLToPath(new URL("../../packages/stateset-agents/bin/stateset-agents.mjs", import.meta.url));
  const made = spawnSync(process.execPath, [cli, "export", model, "--gguf", gguf, "--type", "f32"], {
    encoding: "utf8",
  });
  if (made.status !== 0) throw new Error(`export --gguf failed: ${made.stderr.trim()}`);
  const work = { streams: 16, rounds: quick ? 1 : 3, maxTokens: quick ? 32 : 128 };
  const policy = await openPolicy({ model, threads });
  const prompts = Array.from({ length: work.streams * (work.rounds + 1) }, (_, i) => [
    ...policy.tokenizer.extend(undefined, conversation(i % work.streams, Math.floor(i / work.streams)), {
      addGenerationPrompt: true,
    }).tokens,
  ]);
  await policy.close();
  const sides: { ours: number; theirs: number }[] = [];
  const server = await startOurs({ model, threads });
  try {
    const load = { url: server.url, model: "bench", ...work };
    await askMany({ ...load, rounds: 1 });
    for (let turn = 0; turn < (quick ? 1 : 3); turn++) {
      const ours = perSecond(await askMany(load));
      const theirs = perSecond(await run("llama.mjs", { package: llama, gguf, threads, prompts, ...work }));
      sides.push({ ours, theirs });
    }
  } finally {
    await server.end();
  }
  const parts = {
    ours: quantile(
      sides.map((side) => side.ours),
      0.5,
    ),
    llamaCpp: quantile(
      sides.map((side) => side.theirs),
      0.5,
    ),
  };
  return ofRounds(
    sides.map(({ ours, theirs }) => ours / theirs),
    parts,
  );
}

/** Time to the first token of a conversation's second turn, over that of its first of 900 tokens. */
async function secondTurn({ model, threads, quick }: Bench): Promise<Measured> {
  const policy = await openPolicy({ model, threads });
  const system = longSystem(860, (text) => policy.tokenizer.encode(text).length);
  await policy.close();
  const server = await startOurs({ model, threads });
  const firstToken = async (messages: object[], seed: number) => {
    const began = performance.now();
    const body = { model: "bench", messages, seed, temperature: 1, max_tokens: 32, stream: true };
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    let ms: number | undefined;
    let content = "";
    for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
      for (const [, piece] of text.matchAll(/"content":("(?:[^"\\]|\\.)+")/g)) {
        ms ??= performance.now() - began;
        content += JSON.parse(piece!) as string;
      }
    }
    if (ms === undefined) throw new Error(`No token came: ${response.status}.`);
    return { ms, content };
  };
  try {
    const turns: { first: number; second: number }[] = [];
    for (let i = 0; i < (quick ? 3 : 12); i++) {
      // The number stands first, so that no two conversations begin alike.
      const asked = [
        { role: "system", content: `${i}. ${system}` },
        { role: "user", content: "My order is late." },
      ];
      const first = await firstToken(asked, i);
      const said = [...asked, { role: "assistant", content: first.content }, { role: "user", content: "And now?" }];
      turns.push({ first: first.ms, second: (await firstToken(said, i)).ms });
    }
    const known = turns.slice(1);
    const parts = {
      firstMs: middle(known, "first"),
      secondMs: middle(known, "second"),
    };
    return ofRounds(
      known.map(({ first, second }) => second / first),
      parts,
    );
  } finally {
    await server.end();
  }
}

/** How long streams stand still while other weights are loaded, beside a step of decoding. */
async function swapStallMs({ model, folder, threads, quick }: Bench): Promise<Measured> {
  const other = join(folder, "other");
  cpSync(model, other, { recursive: true });
  changeLastWeight(join(other, "model.safetensors"));
  const server = await startOurs({ model, threads });
  try {
    const load = { url: server.url, model: "bench", streams: 16, rounds: quick ? 2 : 8, maxTokens: 256 };
    await askMany({ ...load, rounds: 1 });
    let over = false;
    const asking = askMany({ ...load, events: true }).finally(() => {
      over = true;
    });
    const loads: { began: number; ended: number }[] = [];
    while (!over) {
      await new Promise((settle) => setTimeout(settle, 400));
      if (!over) loads.push(await server.load(loads.length % 2 === 0 ? other : model));
    }
    const { at } = await asking;
    const calm: number[] = [];
    const stalled: number[] = [];
    for (const moments of at!) {
      // The first event is the role, before the prompt is computed.
      for (let i = 2; i < moments.length; i++) {
        const [from, to] = [moments[i - 1]!, moments[i]!];
        const meets = loads.some(({ began, ended }) => from < ended && to > began);
        (meets ? stalled : calm).push(to - from);
      }
    }
    const stepMs = quantile(calm, 0.5);
    const p99 = quantile(stalled, 0.99);
    const loadMs = quantile(
      loads.map(({ began, ended }) => ended - began),
      0.5,
    );
    const parts = { steps: p99 / stepMs, stepMs, calmP99Ms: quantile(calm, 0.99), loads: loads.length, loadMs };
    return { value: p99, most: 3 * stepMs, parts };
  } finally {
    await server.end();
    rmSync(other, { recursive: true });
  }
}

/** What it costs that a harness records every call: the same streams with and without. */
async function captureCost({ model, threads, quick }: Bench): Promise<Measured> {
  const work = { streams: 32, rounds: quick ? 1 : 4, maxTokens: quick ? 32 : 128, turns: quick ? 1 : 5 };
  const sides = await run<{ plain: number; captured: number }[]>("ours.mjs", "capture", { model, threads, ...work });
  return ofRounds(
    sides.map(({ plain, captured }) => captured / plain),
    { plainTokensPerSecond: middle(sides, "plain"), capturedTokensPerSecond: middle(sides, "captured") },
  );
}

/** The smallest change there is: enough for other weights. */
function changeLastWeight(file: string): void {
  const bytes = readFileSync(file);
  bytes[bytes.length - 2]! ^= 1;
  writeFileSync(file, bytes);
}

export interface Measure {
  /** As a reader of the results is told. */
  what: string;
  aim?: { least: number } | { most: number };
  measure(bench: Bench): Promise<Measured>;
}

export const measures: Record<string, Measure> = {
  engineShare: {
    what: "processor time of a sampled token ÷ of a token streamed by the server, 64 streams, clients in another process",
    aim: { least: 0.85 },
    measure: engineShare,
  },
  transformersServe8: {
    what: "tokens a second ÷ those of `transformers serve`, 8 streams",
    aim: { least: 8 },
    measure: againstTransformers(8),
  },
  transformersServe32: {
    what: "the same with 32 streams",
    aim: { least: 8 },
    measure: againstTransformers(32),
  },
  llamaCpp16: {
    what: "tokens a second ÷ those of llama.cpp (node-llama-cpp, f32, 16 sequences of one context, no server before it)",
    aim: { least: 1 },
    measure: llamaCpp16,
  },
  secondTurn: {
    what: "time to the first token of a conversation's second turn ÷ of its first, of 900 tokens",
    aim: { most: 0.2 },
    measure: secondTurn,
  },
  swapStallMs: {
    what: "p99 of the time between two events of a stream while other weights are loaded, 16 streams; the aim is three steps of decoding",
    measure: swapStallMs,
  },
  captureCost: {
    what: "tokens a second through a harness, which records every call, ÷ through a plain server, 32 streams, clients in the same process",
    aim: { least: 0.95 },
    measure: captureCost,
  },
};
