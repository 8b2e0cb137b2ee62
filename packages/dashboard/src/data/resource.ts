/** Something that is asked for, shown while newer is asked for, and asked for again when what it depends on changes. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./ask.ts";

export interface Resource<T> {
  /** The last that came, also while newer is on its way and after that failed. */
  data: T | undefined;
  error: ApiError | undefined;
  loading: boolean;
  reload(): void;
}

/** `key` names what is asked for: another one drops what was there. `load` is given a signal that fires when nobody needs it any more. */
export function useResource<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: ApiError; loading: boolean }>({
    key,
    loading: true,
  });
  const [again, setAgain] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => (before.key === key ? { ...before, loading: true } : { key, loading: true }));
    latest.current(controller.signal).then(
      (data) => controller.signal.aborted || setState({ key, data, loading: false }),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const said = error instanceof ApiError ? error : new ApiError(String(error), 0, null);
        setState((before) => ({ ...before, key, error: said, loading: false }));
      },
    );
    return () => controller.abort();
  }, [key, again]);
  const reload = useCallback(() => setAgain((count) => count + 1), []);
  const own = state.key === key;
  const unanswered = own && state.error?.status === 0;
  useEffect(() => {
    if (!unanswered) return;
    // Where the network came back before the stream of events noticed that it was gone, nothing else asks again.
    addEventListener("online", reload);
    return () => removeEventListener("online", reload);
  }, [unanswered, reload]);
  return {
    data: own ? state.data : undefined,
    error: own ? state.error : undefined,
    loading: !own || state.loading,
    reload,
  };
}
