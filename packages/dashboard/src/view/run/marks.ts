/** What happened in a run, in words: on the curves and in the list beside them. */
import type { EventsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export interface Happening {
  step: number;
  kind: "verdict" | "adjustment" | "warning" | "note";
  /** One word or two for what it is. */
  name: string;
  text: string;
  advice?: string;
  severity?: string;
  scenarioIds: string[];
  /** What of the conversations of its step shows it. */
  show: Readonly<Record<string, string>>;
}

/** Warnings that are about some conversations of a step and not about the step. */
const shownBy: Readonly<Record<string, Happening["show"]>> = {
  "evaluation-failed": { set: "evaluation" },
  "environment-failed": { failed: "only" },
  "hook-failed": { failed: "only" },
  "reward-failed": { failed: "only" },
};

type Event = EventsData["events"][number];

export function happenings(events: readonly Event[]): Happening[] {
  return events.flatMap((event): Happening[] => {
    const { step } = event;
    const plain = { step, scenarioIds: [] as string[], show: {} };
    if (event.type === "verdict") {
      const found: Happening = { ...plain, kind: "verdict", name: words(event.kind), text: said(event.message) };
      if (typeof event.advice === "string") found.advice = event.advice;
      if (typeof event.severity === "string") found.severity = event.severity;
      if (Array.isArray(event.scenarioIds)) found.scenarioIds = event.scenarioIds.map(String);
      return [found];
    }
    if (event.type === "adjustment") {
      const change = `${said(event.setting)} ${said(event.from)} → ${said(event.to)}`;
      return [{ ...plain, kind: "adjustment", name: "adjustment", text: `${change}: ${said(event.reason)}` }];
    }
    if (event.type === "warning") {
      const show = shownBy[said(event.kind)] ?? {};
      return [{ ...plain, show, kind: "warning", name: words(event.kind), text: said(event.message) }];
    }
    return [];
  });
}

/** Alike ones of the same kind that follow each other, such as a warning at every step, as one with their count. */
export function folded(list: readonly Happening[]): (Happening & { count: number; last: number })[] {
  const groups = new Map<string, Happening & { count: number; last: number }>();
  for (const one of list) {
    const key = `${one.kind} ${one.name} ${one.text.replace(/\d+(\.\d+)?/g, "#")}`;
    const group = groups.get(key);
    if (group) {
      group.count++;
      group.last = one.step;
    } else groups.set(key, { ...one, count: 1, last: one.step });
  }
  return [...groups.values()];
}

/** The recorded step nearest to one; of two equally near the earlier. */
export function nearestStep(recorded: readonly number[], step: number): number | undefined {
  let best: number | undefined;
  for (const one of recorded) if (best === undefined || Math.abs(one - step) < Math.abs(best - step)) best = one;
  return best;
}

const words = (kind: unknown) => said(kind).replaceAll("-", " ");

function said(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null
    ? ""
    : typeof value === "number"
      ? String(Number(value.toPrecision(4)))
      : JSON.stringify(value);
}
