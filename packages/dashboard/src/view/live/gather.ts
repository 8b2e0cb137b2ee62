/**
 * Conversations that came: each once, whether it was asked for, said by the stream, or said again after a reconnect.
 * All functions return what they were given where nothing changed, so that nothing is drawn anew.
 */
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export type Gathered = ReadonlyMap<string, LiveConversation>;

/** Of a run more are never held: a page may stay open for days. */
export const mostOfRun = 1000;

export function nameOf({ run, step, id }: Pick<LiveConversation, "run" | "step" | "id">): string {
  return JSON.stringify([run, step, id]);
}

/** What is newer takes the place of what is older; a reward that was given is not taken back by a message that was under way. */
export function gather(before: Gathered, came: readonly LiveConversation[]): Gathered {
  let now: Map<string, LiveConversation> | undefined;
  for (const one of came) {
    const name = nameOf(one);
    const known = (now ?? before).get(name);
    if (known && !isNewer(one, known)) continue;
    now ??= new Map(before);
    now.set(name, one);
  }
  return now ? bounded(now) : before;
}

function isNewer(one: LiveConversation, known: LiveConversation): boolean {
  if (one.seq !== known.seq) return one.seq > known.seq;
  return known.reward === null && (one.reward !== null || one.failure !== known.failure);
}

/** What a run has now, asked for anew: of what was there only what is older than it stays, since the rest may have been taken back. */
export function regather(before: Gathered, run: string, has: readonly LiveConversation[]): Gathered {
  const first = Math.min(...has.map(({ seq }) => seq));
  return gather(
    kept(before, (one) => one.run !== run || one.seq < first),
    has,
  );
}

/** A run was taken back to a step: what came after it is no more. */
export function cutBack(before: Gathered, run: string, step: number): Gathered {
  return kept(before, (one) => one.run !== run || one.step <= step);
}

export function without(before: Gathered, runs: readonly string[]): Gathered {
  return kept(before, (one) => !runs.includes(one.run));
}

function kept(before: Gathered, keep: (one: LiveConversation) => boolean): Gathered {
  const now = new Map([...before].filter(([, one]) => keep(one)));
  return now.size === before.size ? before : now;
}

function bounded(all: Map<string, LiveConversation>): Gathered {
  const counts = new Map<string, number>();
  for (const { run } of all.values()) counts.set(run, (counts.get(run) ?? 0) + 1);
  for (const [run, count] of counts) {
    if (count <= mostOfRun) continue;
    const oldest = [...all.values()].filter((one) => one.run === run).sort((a, b) => a.seq - b.seq);
    for (const one of oldest.slice(0, count - mostOfRun)) all.delete(nameOf(one));
  }
  return all;
}
