/** What runs are, asked for anew as they go on. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { onLive } from "./live.ts";
import { type Resource, useResource } from "./resource.ts";

const mostOftenMs = 1000;

export interface Changes {
  /** Whoever shows something of the runs asks again when it grows. */
  count: number;
  /** Those whose folders are no more. */
  gone: readonly string[];
  again(): void;
}

/** Counts what changed of some runs: at most once a second, at once where one was cut back. */
export function useChanges(runs: readonly string[]): Changes {
  const [count, setCount] = useState(0);
  const [gone, setGone] = useState<readonly string[]>([]);
  const again = useCallback(() => setCount((before) => before + 1), []);
  useEffect(() => {
    const own = new Set(runs);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last = 0;
    const soon = (ms: number) => {
      if (timer !== undefined) return;
      timer = setTimeout(
        () => {
          timer = undefined;
          last = Date.now();
          again();
        },
        Math.max(0, last + ms - Date.now()),
      );
    };
    setGone([]);
    const ends = [
      onLive("steps", ({ run, cut }) => own.has(run) && soon(cut ? 0 : mostOftenMs)),
      onLive("runs", ({ rows, gone: left }) => {
        const there = rows.filter(({ key }) => own.has(key)).map(({ key }) => key);
        const lost = left.filter((key) => own.has(key));
        if (there.length + lost.length === 0) return;
        setGone((before) => [...before.filter((key) => !there.includes(key)), ...lost]);
        // Of a run that is gone what was read stays; of several, those that are left are asked for.
        if (there.length > 0 || own.size > 1) soon(mostOftenMs);
      }),
      onLive("reset", again),
    ];
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [JSON.stringify(runs)]);
  return { count, gone, again };
}

/** What was there stays while the same is asked for again. */
export function useFollowed<T>(key: string, changes: number, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const resource = useResource(key, load);
  const { loading, reload } = resource;
  const known = useRef(changes);
  useEffect(() => {
    // An answer that is under way is waited for: over a slow line none would come, were each new step to begin anew.
    if (known.current === changes || loading) return;
    known.current = changes;
    reload();
  }, [changes, loading]);
  return resource;
}
