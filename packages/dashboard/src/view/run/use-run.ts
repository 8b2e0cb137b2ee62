/** A run, asked for anew as it goes on. */
import type { EvaluationsData, EventsData, RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson } from "../../data/ask.ts";
import { useFollowed } from "../../data/follow.ts";
import type { Resource } from "../../data/resource.ts";

interface RunSources {
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
