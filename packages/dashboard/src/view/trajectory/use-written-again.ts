/** Conversations are written once, but a run that a resume took back writes those of later steps anew. */
import { useEffect, useRef } from "preact/hooks";
import { onLive } from "../../data/live.ts";
import { isOf } from "../../data/run-of.ts";

/** `key` is that of a trajectory or a group. `more`: told of new steps too. */
export function useWrittenAgain(key: string, reload: () => void, more = false): void {
  const latest = useRef(reload);
  latest.current = reload;
  useEffect(() => {
    const again = () => latest.current();
    const ends = [
      onLive("steps", ({ run, cut }) => (cut || more) && isOf(key, run) && again()),
      onLive("reset", again),
    ];
    return () => {
      for (const end of ends) end();
    };
  }, [key, more]);
}
