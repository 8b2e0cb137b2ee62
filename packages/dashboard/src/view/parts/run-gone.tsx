/** Said above what was read of a run whose folder is no more. */
import { useEffect, useState } from "preact/hooks";
import { onLive } from "../../data/live.ts";
import { isOf } from "../../data/run-of.ts";

export function RunGone() {
  return (
    <p class="problem" role="alert">
      The folder of this run is gone. What is shown is what was read before.
    </p>
  );
}

/** For views that ask for nothing again as their run goes on. `key` is that of a trajectory or a group. */
export function useGone(key: string): boolean {
  const [gone, setGone] = useState(false);
  useEffect(() => {
    const own = (run: string) => isOf(key, run);
    setGone(false);
    return onLive("runs", ({ rows, gone: left }) => {
      if (left.some(own)) setGone(true);
      else if (rows.some((row) => own(row.key))) setGone(false);
    });
  }, [key]);
  return gone;
}
