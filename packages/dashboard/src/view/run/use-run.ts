/** A run, asked for anew as it goes on: at most once a second, at once where it was cut back. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { EvaluationsData, EventsData, RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { onLive } from "../../data/live.ts";
import { type Resource, useResource } from "../../data/resource.ts";

const mostOftenMs = 1000;

/** Counts what changed of a run: whoever shows something of it asks again when the count does. `gone`: its folder is no more. */
export function useChanges(run: string): { count: number; gone: boolean; again(): void } {
  const [count, setCount] = useState(0);
  const [gone, setGone] = useState(false);
  const again = useCallback(() => setCount((before) => before + 1), []);
  useEffect(() => {
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
    setGone(false);
    const ends = [
      onLive("steps", (event) => event.run === run && soon(event.cut ? 0 : mostOftenMs)),
      onLive("runs", ({ rows, gone: left }) => {
        if (rows.some(({ key }) => key === run)) {
          setGone(false);
          soon(mostOftenMs);
        }
        if (left.includes(run)) setGone(true);
      }),
      onLive("reset", again),
    ];
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [run]);
  return { count, gone, again };
}

/** What was there stays while the same is asked for again. */
export function useFollowed<T>(key: string, changes: number, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const resource = useResource(key, load);
  const first = useRef(changes);
  useEffect(() => {
    if (first.current !== changes) resource.reload();
    first.current = changes;
  }, [changes]);
  return resource;
}

export interface RunSources {
  run: Resource<RunData>;
  events: Resource<EventsData>;
  evaluations: Resource<EvaluationsData>;
}

export function useRun(key: string, changes: number): RunSources {
  const path = `runs/${encodeURIComponent(key)}`;
  return {
    run: useFollowed(path, changes, (signal) => askJson<RunData>(path, {}, signal)),
    events: useFollowed(`${path}/events`, changes, (signal) => askJson<EventsData>(`${path}/events`, {}, signal)),
    evaluations: useFollowed(`${path}/evaluations`, changes, (signal) =>
      askJson<EvaluationsData>(`${path}/evaluations`, {}, signal),
    ),
  };
}
