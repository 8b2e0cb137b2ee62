/**
 * A crowd of clients in a process apart from the server's: `crowd.ts <request as JSON>` writes what each saw, a line of JSON each, to
 * `file`. One key floods, the other asks for one reply at a time: first while it is alone, then in the flood.
 */
import { createWriteStream } from "node:fs";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createRandom } from "../../src/random.ts";
import { ask, type Manner, type Seen } from "./ask.ts";

export interface CrowdRequest {
  url: string;
  model: string;
  flooding: string;
  quiet: string;
  /** Clients of the key that floods. */
  streams: number;
  aloneMs: number;
  floodMs: number;
  file: string;
}

export interface CrowdLine extends Seen {
  who: "flooding" | "alone" | "quiet";
  sleeps: boolean;
}

/** Of each kind of client its own, so that no two requests are the same. */
const seeds = { alone: 1_000_000_000, quiet: 2_000_000_000 };

const request = JSON.parse(process.argv[2]!) as CrowdRequest;
const { url, model, streams } = request;
const agent = new Agent({ keepAlive: true });
const out = createWriteStream(request.file);

/** 20% leave, 5% do not read. */
function mannerOf(random: () => number): Manner {
  const drawn = random();
  if (drawn < 0.2) return { leavesAfter: 1 + Math.floor(random() * 20) };
  return drawn < 0.25 ? { sleepsMs: 2000 } : {};
}

async function run(who: CrowdLine["who"], token: string, firstSeed: number, until: number): Promise<void> {
  const random = createRandom(firstSeed).next;
  for (let seed = firstSeed; performance.now() < until; seed++) {
    const manner = who === "flooding" ? mannerOf(random) : {};
    const seen = await ask({ url, token, model, agent }, seed, manner);
    out.write(`${JSON.stringify({ ...seen, who, sleeps: manner.sleepsMs !== undefined } satisfies CrowdLine)}\n`);
    if (seen.status !== 200) await sleep(seen.retryMs ?? 50);
  }
}

await run("alone", request.quiet, seeds.alone, performance.now() + request.aloneMs);
const until = performance.now() + request.floodMs;
const flood = Array.from({ length: streams }, (_, i) => run("flooding", request.flooding, i * 1_000_000, until));
await Promise.all([...flood, run("quiet", request.quiet, seeds.quiet, until)]);
agent.destroy();
await new Promise<void>((settle) => out.end(settle));
