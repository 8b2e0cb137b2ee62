/** What ten listeners on /ui/api/live cost the training that they listen to. */
import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { median, range } from "./numbers.ts";
import { startDashboard } from "./processes.ts";
import { linesOf, startTraining } from "./training.ts";
import { cookieOf } from "./views.ts";

export interface Listeners {
  /** Time of a step with them ÷ without, the middle of the pairs and their range. */
  ratio: number;
  ratios: [number, number];
  pairs: number;
  /** Processor time that the server took while they listened, as a share of the machine. */
  serverShare: number;
  eventsHeard: number;
}

const listeners = 10;

export async function measureListeners(
  folder: string,
  { pairs, steps }: { pairs: number; steps: number },
): Promise<Listeners> {
  const server = await startDashboard(`${folder}/runs`, `${folder}/cache-listeners`);
  try {
    const cookie = await cookieOf(server);
    const ratios: number[] = [];
    let [share, heard] = [0, 0];
    for (let pair = 0; pair < pairs; pair++) {
      const time: Record<string, number> = {};
      // Who goes first changes from pair to pair.
      for (const kind of pair % 2 === 0 ? ["with", "without"] : ["without", "with"]) {
        const ending = new AbortController();
        const streams =
          kind === "with"
            ? Array.from({ length: listeners }, () => listen(`${server.url}/ui/api/live`, cookie, ending.signal))
            : [];
        const before = { cpu: cpuMs(server.pid), at: performance.now() };
        const training = startTraining(folder, `${kind}-${pair}`, steps);
        await training.end;
        time[kind] = stepMs(training.dir);
        const took = (performance.now() - before.at) * cpus().length;
        ending.abort();
        const counts = await Promise.all(streams);
        if (kind !== "with") continue;
        share = Math.max(share, (cpuMs(server.pid) - before.cpu) / took);
        heard += counts.reduce((sum, count) => sum + count, 0);
      }
      ratios.push(time.with! / time.without!);
    }
    return { ratio: median(ratios), ratios: range(ratios), pairs, serverShare: share, eventsHeard: heard };
  } finally {
    await server.end();
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

/** The middle one by the clock; the first warms up. */
function stepMs(dir: string): number {
  const timing = linesOf<{ rolloutMs: number; updateMs: number; otherMs: number }>(dir, "timing.jsonl").slice(1);
  return median(timing.map(({ rolloutMs, updateMs, otherMs }) => rolloutMs + updateMs + otherMs));
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
