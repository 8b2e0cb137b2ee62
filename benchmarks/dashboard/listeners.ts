/**
 * What ten listeners on /ui/api/live cost the training that they listen to. Runs differ among themselves by more than what is asked for, so
 * they come and go within one: blocks of a few steps with them and without, four at a time in the order A B B A (which of the two is A is
 * drawn), so that whatever drifts meanwhile cancels; of each four one difference, and of these a mean with its interval: the fifth at either
 * end is left out (Yuen), since what else a machine does now and then takes many times what is asked for.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createRandom } from "../../packages/stateset-agents/src/random.ts";
import { trimmedMean } from "./numbers.ts";
import { startDashboard } from "./processes.ts";
import { evenSteps, linesOf, startTraining } from "./training.ts";
import { cookieOf } from "./views.ts";

export interface Listeners {
  /** Milliseconds a sampled token with them ÷ without, less one: the trimmed mean over the fours, and its 95% interval. */
  slower: number;
  interval: [number, number];
  /** The share of the fours left out at either end; records of before had none. */
  trimmed?: number;
  fours: number;
  /** Of one block. */
  steps: number;
  /** Processor time of the server while they listened, as a share of the machine; and of the training, which they were taken from. */
  serverShare: number;
  serverOfTraining: number;
  eventsHeard: number;
}

const listeners = 10;
const trimmed = 0.2;
/** Steps at the beginning that nobody looks at. */
const warmUp = 6;

interface Block {
  with: boolean;
  /** Steps that were played in it from their beginning to their end. */
  from: number;
  to: number;
}

export async function measureListeners(
  folder: string,
  { fours, blockSteps }: { fours: number; blockSteps: number },
): Promise<Listeners> {
  const server = await startDashboard(`${folder}/runs`, `${folder}/cache-listeners`);
  try {
    const cookie = await cookieOf(server);
    const order = orderOf(fours);
    // More than will be done: it is killed.
    const steps = warmUp + 2 * order.length * (blockSteps + 1);
    const training = startTraining(folder, "listened-to", steps, evenSteps);
    const written = new WrittenLines(join(training.dir, "timing.jsonl"));
    const reached = async (step: number) => {
      while (written.count() < step) {
        if (training.child.exitCode !== null) throw new Error("The training ended too early.");
        await sleep(20);
      }
    };
    const blocks: Block[] = [];
    const spent = { server: 0, training: 0, ms: 0 };
    let heard = 0;
    await reached(warmUp);
    for (const isWith of order) {
      const ending = new AbortController();
      const streams = isWith
        ? Array.from({ length: listeners }, () => listen(`${server.url}/ui/api/live`, cookie, ending.signal))
        : [];
      // The step in which they come or go belongs to no block.
      const begun = written.count() + 1;
      await reached(begun);
      const before = { server: cpuMs(server.pid), training: cpuMs(training.child.pid!), at: performance.now() };
      await reached(begun + blockSteps);
      if (isWith) {
        spent.server += cpuMs(server.pid) - before.server;
        spent.training += cpuMs(training.child.pid!) - before.training;
        spent.ms += performance.now() - before.at;
      }
      blocks.push({ with: isWith, from: begun + 1, to: begun + blockSteps });
      ending.abort();
      heard += (await Promise.all(streams)).reduce((sum, count) => sum + count, 0);
    }
    training.child.kill("SIGKILL");
    await training.end;
    return {
      ...slowerBy(blocks, msPerToken(training.dir)),
      ...{ trimmed, fours, steps: blockSteps, eventsHeard: heard },
      serverShare: spent.server / (spent.ms * cpus().length),
      serverOfTraining: spent.server / spent.training,
    };
  } finally {
    await server.end();
  }
}

/** With or without, block by block. */
function orderOf(fours: number): boolean[] {
  const random = createRandom(1);
  return Array.from({ length: fours }, () => {
    const first = random.next() < 0.5;
    return [first, !first, !first, first];
  }).flat();
}

/** `of`: what the steps of a block took. */
export function slowerBy(
  blocks: readonly Block[],
  of: (from: number, to: number) => number,
): Pick<Listeners, "slower" | "interval"> {
  const differences: number[] = [];
  for (let at = 0; at + 4 <= blocks.length; at += 4) {
    const four = blocks.slice(at, at + 4).map((block) => ({ ...block, took: of(block.from, block.to) }));
    const side = (isWith: boolean) =>
      four.filter((block) => block.with === isWith).reduce((sum, { took }) => sum + Math.log(took), 0) / 2;
    differences.push(side(true) - side(false));
  }
  const { mean, half } = trimmedMean(differences, trimmed);
  return { slower: Math.expm1(mean), interval: [Math.expm1(mean - half), Math.expm1(mean + half)] };
}

/** Of steps [from, to]: replies are not of one length, and a step takes as long as what it sampled. */
function msPerToken(dir: string): (from: number, to: number) => number {
  const timing = linesOf<{ step: number; rolloutMs: number; updateMs: number; otherMs: number }>(dir, "timing.jsonl");
  const metrics = linesOf<{ step: number; sampledTokens: number }>(dir, "metrics.jsonl");
  const sum = <T extends { step: number }>(lines: readonly T[], from: number, to: number, of: (line: T) => number) =>
    lines.filter(({ step }) => step >= from && step <= to).reduce((all, line) => all + of(line), 0);
  return (from, to) =>
    sum(timing, from, to, ({ rolloutMs, updateMs, otherMs }) => rolloutMs + updateMs + otherMs) /
    sum(metrics, from, to, ({ sampledTokens }) => sampledTokens);
}

/** How many lines a file has, from what was appended: who waits for a step may not take the processor from it. */
class WrittenLines {
  readonly #path: string;
  readonly #bytes = Buffer.alloc(1 << 16);
  #at = 0;
  #lines = 0;

  constructor(path: string) {
    this.#path = path;
  }

  count(): number {
    let file: number;
    try {
      file = openSync(this.#path, "r");
    } catch {
      return 0;
    }
    try {
      for (let read = -1; read !== 0; this.#at += read) {
        read = readSync(file, this.#bytes, 0, this.#bytes.length, this.#at);
        for (let i = 0; i < read; i++) if (this.#bytes[i] === 10) this.#lines++;
      }
    } finally {
      closeSync(file);
    }
    return this.#lines;
  }
}

/** Events that came until it was ended. */
async function listen(url: string, cookie: string, signal: AbortSignal): Promise<number> {
  let count = 0;
  try {
    const answer = await fetch(url, { headers: { cookie }, signal });
    const decoder = new TextDecoder();
    for await (const bytes of answer.body!) count += decoder.decode(bytes, { stream: true }).split("\nid:").length - 1;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return count;
}

/** Of the whole process so far; zero where the system does not tell. */
function cpuMs(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return 0;
  }
}
