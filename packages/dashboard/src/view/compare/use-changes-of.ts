/** Counts what changed of any of some runs, at most every two seconds. */
import { useEffect, useState } from "preact/hooks";
import { onLive } from "../../data/live.ts";

const mostOftenMs = 2000;

export function useChangesOf(runs: readonly string[]): number {
  const [count, setCount] = useState(0);
  const key = JSON.stringify(runs);
  useEffect(() => {
    const own = new Set(runs);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = (ms: number) => {
      timer ??= setTimeout(() => {
        timer = undefined;
        setCount((before) => before + 1);
      }, ms);
    };
    const ends = [
      onLive("steps", ({ run, cut }) => own.has(run) && soon(cut ? 0 : mostOftenMs)),
      onLive("runs", ({ rows, gone }) => {
        if (gone.some((run) => own.has(run)) || rows.some((row) => own.has(row.key))) soon(mostOftenMs);
      }),
      onLive("reset", () => soon(0)),
    ];
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [key]);
  return count;
}
