/** The list of runs as the address asks for it: further pages as they are scrolled to, changes as they happen. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { RunRow, RunsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { ApiError, askJson, type Query } from "../../data/ask.ts";
import { onLive } from "../../data/live.ts";
import { patched } from "./grouped.ts";

export interface Runs {
  /** The last answer, with all rows that came so far; also while another is on its way. */
  data: RunsData | undefined;
  error: ApiError | undefined;
  loading: boolean;
  more(): void;
  reload(): void;
  put(row: Partial<RunRow> & { key: string }): void;
}

/** So many are looked through for the run that is to be seen. */
const mostRows = 2000;

/** `all`: every page at once. `wanted`: the key of a run that is to be among those that come first. */
export function useRuns(query: Query, all: boolean, wanted: string | undefined): Runs {
  const key = JSON.stringify(query);
  const [data, setData] = useState<RunsData>();
  const [error, setError] = useState<ApiError>();
  const [loading, setLoading] = useState(true);
  const [again, setAgain] = useState(0);
  const rows = useRef(0);
  rows.current = data?.rows.length ?? 0;
  const asking = useRef<AbortController | undefined>(undefined);

  /** From the beginning until there are as many as before (or all), then at once: the list does not shrink under the reader. */
  useEffect(() => {
    const controller = new AbortController();
    asking.current?.abort();
    asking.current = controller;
    setLoading(true);
    const load = async () => {
      let answer = await askJson<RunsData>("runs", query, controller.signal);
      const short = () =>
        answer.rows.length < rows.current ||
        (wanted !== undefined && answer.rows.length < mostRows && answer.rows.every(({ key: one }) => one !== wanted));
      while (answer.next !== null && (all || short())) {
        answer = joined(answer, await askJson<RunsData>("runs", { ...query, cursor: answer.next }, controller.signal));
      }
      return answer;
    };
    settle(load(), controller.signal);
    return () => controller.abort();
  }, [key, all, again]);

  const settle = (answer: Promise<RunsData>, signal: AbortSignal) =>
    answer.then(
      (now) => {
        if (signal.aborted) return;
        setData(now);
        setError(undefined);
        setLoading(false);
      },
      (problem: unknown) => {
        if (signal.aborted) return;
        setError(problem instanceof ApiError ? problem : new ApiError(String(problem), 0, null));
        setLoading(false);
      },
    );

  const more = () => {
    const signal = asking.current?.signal;
    if (!data?.next || loading || !signal) return;
    setLoading(true);
    settle(
      askJson<RunsData>("runs", { ...query, cursor: data.next }, signal).then((page) => joined(data, page)),
      signal,
    );
  };

  const reload = useCallback(() => setAgain((count) => count + 1), []);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = (ms: number) => {
      timer ??= setTimeout(() => {
        timer = undefined;
        reload();
      }, ms);
    };
    const ends = [
      onLive("runs", (change) => {
        setData((before) => {
          if (!before) return before;
          const { rows: now, stale } = patched(before.rows, change);
          if (stale) soon(300);
          else if (query.sort || query.filter) soon(5000);
          return { ...before, rows: now, total: before.total - (before.rows.length - now.length) };
        });
      }),
      onLive("reset", reload),
    ];
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [key]);

  const put = (row: Partial<RunRow> & { key: string }) =>
    setData((before) =>
      before ? { ...before, rows: before.rows.map((one) => (one.key === row.key ? { ...one, ...row } : one)) } : before,
    );
  return { data, error, loading, more, reload, put };
}

/** A run that moved from one page to the next while they were asked for is there once. */
function joined(before: RunsData, page: RunsData): RunsData {
  const known = new Set(before.rows.map(({ key }) => key));
  return { ...page, rows: [...before.rows, ...page.rows.filter(({ key }) => !known.has(key))] };
}
