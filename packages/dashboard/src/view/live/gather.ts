/**
 * Conversations that came: each once, whether it was asked for, said by the stream, or said again after a reconnect. Those of a run stand
 * in the order they ended; `seq` grows with everything that is said of a conversation. All functions return what they were given where
 * nothing changed, so that nothing is drawn anew.
 */
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export type Gathered = ReadonlyMap<string, LiveConversation>;

/** Of a run more are never held: a page may stay open for days. */
export const mostOfRun = 1000;

export function nameOf({ run, step, id }: Pick<LiveConversation, "run" | "step" | "id">): string {
  return JSON.stringify([run, step, id]);
}

/** What was said later counts: a reward that was given is not taken back by a message that was under way. */
export function gather(before: Gathered, came: readonly LiveConversation[]): Gathered {
  let now: Map<string, LiveConversation> | undefined;
  for (const one of came) {
    const name = nameOf(one);
    const known = (now ?? before).get(name);
    if (known && one.seq <= known.seq) continue;
    now ??= new Map(before);
    // A step that is played again has ended anew.
    if (known && known.at !== one.at) now.delete(name);
    now.set(name, one);
  }
  return now ? bounded(now) : before;
}

/** What a run has now, asked for anew: of what was there only what is older than it stays, since the rest may have been taken back. */
export function regather(before: Gathered, run: string, has: readonly LiveConversation[]): Gathered {
  const first = has[0];
  if (!first) return before;
  const isOlder = ({ step, at }: LiveConversation) => step < first.step || (step === first.step && at < first.at);
  return gather(
    kept(before, (one) => one.run !== run || isOlder(one)),
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
  for (const [name, { run }] of all) {
    const count = counts.get(run)!;
    if (count <= mostOfRun) continue;
    all.delete(name);
    counts.set(run, count - 1);
  }
  return all;
}
