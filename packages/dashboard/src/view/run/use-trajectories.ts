/** Conversations as a filter asks for them, a page at a time. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TrajectoriesData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { ApiError, askJson, type Query } from "../../data/ask.ts";
import { useFollowed } from "../../data/follow.ts";
import type { Resource } from "../../data/resource.ts";

export interface Trajectories extends Resource<TrajectoriesData> {
  more(): void;
}

export function useTrajectories(run: string, query: Query, changes: number): Trajectories {
  const path = `runs/${encodeURIComponent(run)}/trajectories`;
  const key = JSON.stringify([path, query]);
  const [pages, setPages] = useState<{ of: string; data: TrajectoriesData }>();
  /** What a page is being asked for of: another filter need not wait for it, and its failure is none of theirs. */
  const asking = useRef<string>(undefined);
  const [problem, setProblem] = useState<{ of: string; error: ApiError }>();
  // Who comes back to a filter tries again.
  useEffect(() => setProblem(undefined), [key]);
  const first = useFollowed(key, changes, (signal) => askJson<TrajectoriesData>(path, query, signal));
  // Pages that follow belong to the first one they were asked after, also where that was asked for again and is the same.
  const begun = useMemo(() => JSON.stringify([first.data?.next, first.data?.rows.map((row) => row.key)]), [first.data]);
  const data = pages && pages.of === begun ? pages.data : first.data;
  const more = async () => {
    if (!data?.next || asking.current === key) return;
    asking.current = key;
    try {
      const page = await askJson<TrajectoriesData>(path, { ...query, cursor: data.next });
      const problems = [...data.problems, ...page.problems];
      setPages({ of: begun, data: { ...page, rows: [...data.rows, ...page.rows], problems } });
      setProblem(undefined);
    } catch (error) {
      setProblem({ of: key, error: error instanceof ApiError ? error : new ApiError(String(error), 0, null) });
    } finally {
      if (asking.current === key) asking.current = undefined;
    }
  };
  return { ...first, data, error: first.error ?? (problem?.of === key ? problem.error : undefined), more };
}
