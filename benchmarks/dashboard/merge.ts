/** What a machine's record holds after some of its parts were measured again. */
import { type DashboardRecord, type Occasion, type Part, type Parts, partNames } from "./report.ts";

export type Whole = Omit<DashboardRecord, Part | "apart">;

/** Every part is there: those that were not measured now are kept, each with when it was. Undefined where one was never measured. */
export function merged(
  known: DashboardRecord | undefined,
  now: Whole,
  measured: Partial<Parts>,
): DashboardRecord | undefined {
  const own: Partial<Parts> = { ...measured };
  // A comparison is not lost because this time there was nothing to compare with.
  if (known?.against.tensorBoard && !own.against?.tensorBoard) delete own.against;
  if (partNames.some((part) => !own[part] && !known)) return undefined;
  const parts = { ...known, ...own } as Parts;
  const newest = partNames.filter((part) => own[part]);
  // The head is of the occasion that most parts are of.
  const whole = known && newest.length <= partNames.length / 2 ? known : now;
  const apart: Partial<Record<Part, Occasion>> = {};
  for (const part of partNames) {
    const of = newest.includes(part) ? now : (known!.apart?.[part] ?? known!);
    if (!sameOccasion(of, whole)) apart[part] = { date: of.date, load: of.load, browser: of.browser };
  }
  const { machine, date, load, browser, runs, steps, overlaid } = whole;
  return {
    ...{ machine, date, load, browser, runs, steps, overlaid },
    ...Object.fromEntries(partNames.map((part) => [part, parts[part]])),
    ...(Object.keys(apart).length > 0 && { apart }),
  } as DashboardRecord;
}

const sameOccasion = (a: Occasion, b: Occasion) =>
  a.date === b.date && a.load.before === b.load.before && a.load.after === b.load.after;
