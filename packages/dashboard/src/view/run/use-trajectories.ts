/** Conversations as a filter asks for them, a page at a time. */
import { useState } from "preact/hooks";
import type { TrajectoriesData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { ApiError, askJson, type Query } from "../../data/ask.ts";
import type { Resource } from "../../data/resource.ts";
import { useFollowed } from "./use-run.ts";

export interface Trajectories extends Resource<TrajectoriesData> {
  more(): void;
}

export function useTrajectories(run: string, query: Query, changes: number): Trajectories {
  const path = `runs/${encodeURIComponent(run)}/trajectories`;
  const key = JSON.stringify([path, query]);
  const [pages, setPages] = useState<{ of: TrajectoriesData; data: TrajectoriesData }>();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<ApiError>();
  const first = useFollowed(key, changes, (signal) => askJson<TrajectoriesData>(path, query, signal));
  // Pages that follow belong to the first one they were asked after.
  const data = pages && pages.of === first.data ? pages.data : first.data;
  const more = async () => {
    const begun = first.data;
    if (!begun || !data?.next || busy) return;
    setBusy(true);
    try {
      const page = await askJson<TrajectoriesData>(path, { ...query, cursor: data.next });
      const problems = [...data.problems, ...page.problems];
      setPages({ of: begun, data: { ...page, rows: [...data.rows, ...page.rows], problems } });
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof ApiError ? error : new ApiError(String(error), 0, null));
    } finally {
      setBusy(false);
    }
  };
  return { ...first, data, error: first.error ?? problem, loading: first.loading || busy, more };
}
