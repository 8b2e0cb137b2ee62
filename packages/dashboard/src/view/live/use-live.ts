/** The state of the Live view, kept up to date while it is shown. */
import { useEffect, useReducer, useState } from "preact/hooks";
import type { LiveConversationsData, RunRow, RunsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { ApiError, askJson } from "../../data/ask.ts";
import { onLive } from "../../data/live.ts";
import { emptyState, type Happened, happen, type LiveState } from "./state.ts";

export interface Live {
  state: LiveState;
  /** Until the first answer. */
  loading: boolean;
  error: ApiError | undefined;
  retry(): void;
}

/** Whoever renders it takes another key for another run: it begins anew. */
export function useLive(only: string | undefined): Live {
  const [state, tell] = useReducer(happen, only, emptyState);
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState<ApiError>();
  const [again, setAgain] = useState(0);

  useEffect(() => {
    const controller = new AbortController();
    const ends = [
      onLive("runs", (event) => tell({ kind: "runs", event })),
      onLive("steps", (event) => {
        tell({ kind: "steps", event });
        // What was played again may have been said before the cut was.
        if (event.cut) void askConversations(event.run, tell, controller.signal);
      }),
      onLive("conversations", (event) => tell({ kind: "conversations", event })),
      onLive("reset", () => setAgain((count) => count + 1)),
    ];
    askRows(only, controller.signal).then(
      (rows) => {
        tell({ kind: "rows", rows });
        setError(undefined);
        setLoading(false);
      },
      (problem: unknown) => {
        if (controller.signal.aborted) return;
        setError(problem instanceof ApiError ? problem : new ApiError(String(problem), 0, null));
        setLoading(false);
      },
    );
    return () => {
      controller.abort();
      for (const end of ends) end();
    };
  }, [again]);

  const shown = [...state.rows.keys()].join("\n");
  useEffect(() => {
    const controller = new AbortController();
    for (const run of state.rows.keys()) void askConversations(run, tell, controller.signal);
    return () => controller.abort();
  }, [shown, again]);

  return { state, loading, error, retry: () => setAgain((count) => count + 1) };
}

async function askRows(only: string | undefined, signal: AbortSignal): Promise<readonly RunRow[]> {
  if (only !== undefined) return [await askJson<RunRow>(`runs/${encodeURIComponent(only)}`, {}, signal)];
  return (await askJson<RunsData>("runs", { filter: "state = running", archived: "all" }, signal)).rows;
}

async function askConversations(run: string, tell: (happened: Happened) => void, signal: AbortSignal): Promise<void> {
  tell({ kind: "ask", run });
  try {
    const { conversations, problems } = await askJson<LiveConversationsData>(
      `runs/${encodeURIComponent(run)}/live`,
      {},
      signal,
    );
    tell({ kind: "answer", run, conversations, problems });
  } catch (error) {
    if (signal.aborted) return;
    const problems = [{ where: run, message: error instanceof Error ? error.message : String(error) }];
    tell({ kind: "answer", run, conversations: [], problems });
  }
}
