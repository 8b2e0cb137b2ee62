/** What the dashboard takes, in words and tables. */
import type { MachineRecord, Records } from "../results.ts";
import type { Listeners } from "./listeners.ts";
import type { Live } from "./live.ts";
import type { Motion } from "./motion.ts";
import { median } from "./numbers.ts";
import type { Against, Side } from "./peer.ts";
import type { Views } from "./views.ts";

export interface Parts {
  views: Views;
  motion: Motion;
  against: Against;
  live: Live;
  listeners: Listeners;
}
export type Part = keyof Parts;
export const partNames = ["views", "motion", "against", "live", "listeners"] as const satisfies readonly Part[];

/** When something was measured, and how busy the machine was. */
export interface Occasion {
  date: string;
  load: { before: number; after: number };
  browser: string;
}

export interface DashboardRecord extends MachineRecord, Occasion, Parts {
  runs: number;
  steps: number;
  overlaid: number;
  /** Of parts that were measured another time than the rest. */
  apart?: Partial<Record<Part, Occasion>>;
}

export interface Line {
  what: string;
  value: number;
  unit: "ms" | "MiB" | "×" | "%";
  /** At most, or at least. */
  aim: { most: number } | { least: number };
  about?: string;
  /** Where it lies, by what was measured, in the unit. */
  interval?: [number, number];
}

const number = (value: number) =>
  Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);

const ms = (what: string, value: number, most: number, about?: string): Line => ({
  ...{ what, value, unit: "ms" as const, aim: { most }, ...(about !== undefined && { about }) },
});
const mib = (what: string, value: number, most: number, about: string): Line => ({
  ...{ what, value, unit: "MiB" as const, aim: { most }, about },
});

/** Of the parts that were measured. */
export function linesOf(record: Partial<Parts> & Pick<DashboardRecord, "overlaid">): Line[] {
  const { views, motion, against, live, listeners, overlaid } = record;
  return [
    ...(views ? viewLines(views, overlaid) : []),
    ...(motion ? motionLines(motion) : []),
    ...serverLines(record),
    ...(against ? againstLines(against) : []),
    ...(live ? liveLines(live) : []),
    ...(listeners ? [listenerLine(listeners)] : []),
  ];
}

function viewLines(views: Views, overlaid: number): Line[] {
  return [
    ms(
      "index of all runs, from nothing",
      views.indexMs,
      5000,
      "until the list is answered; the files may be in the memory of the system",
    ),
    ms(
      "first view, index there",
      views.firstViewMs,
      1000,
      `page and server fresh; the command took ${number(views.commandMs)} ms before`,
    ),
    ms("the list again", views.listAgainMs, 300, "page loaded anew, server warm"),
    ms(
      `${overlaid} runs laid over each other`,
      views.overlayMs,
      500,
      `opened by its address ${number(views.overlayOpenedMs)} ms; one run ${number(views.runMs)} ms`,
    ),
  ];
}

function motionLines(motion: Motion): Line[] {
  return [
    ...Object.entries(motion.work).map(([what, work]) =>
      ms(
        what,
        work.p99,
        16,
        `p99 of ${work.frames} frames; middle ${number(work.median)}, longest ${number(work.longest)} (${number(work.longestByClock)} by the clock)`,
      ),
    ),
    mib(
      "memory of the page",
      motion.memory.own,
      300,
      `its process's own, the most after any of that; objects ${number(motion.memory.heap)}; all that is counted for the process, at its most, ${number(motion.memory.process)}, of which a page with nothing on it has ${number(motion.emptyPage)}`,
    ),
  ];
}

/** The most of all that it was asked for. */
function serverLines({ views, motion, against }: Partial<Parts>): Line[] {
  const seen = [
    ["while indexing", views?.serverIndexing],
    ["with 5,000 conversations and 100,000 tokens", motion?.serverMemory],
    ["with all runs compared", against?.serverMemory],
  ].filter((one): one is [string, number] => one[1] !== undefined);
  const most = Math.max(views?.serverMemory ?? 0, ...seen.map(([, value]) => value));
  if (most === 0) return [];
  const about = `its most; ${seen.map(([when, value]) => `${when} ${number(value)}`).join(", ")}`;
  return [mib("memory of the server", most, 400, about)];
}

function liveLines(live: Live): Line[] {
  return [
    ms(
      "a step on the page after it ended",
      live.step.longest,
      2000,
      `longest of ${live.step.count}; middle ${number(live.step.median)}`,
    ),
    ms(
      "a conversation on the page after it ended",
      live.conversation.longest,
      1000,
      `longest of ${live.conversation.count}; middle ${number(live.conversation.median)}`,
    ),
    ms("a killed trainer shown as lost", live.lostMs, 15_000),
  ];
}

function listenerLine(listeners: Listeners): Line {
  return {
    ...{ what: "training with ten listeners", value: listeners.slower * 100, unit: "%", aim: { most: 2 } },
    interval: listeners.interval.map((end) => end * 100) as [number, number],
    about: `slower a token, within one run: ${listeners.fours} × 4 blocks of ${listeners.steps} steps, ${listeners.trimmed ? `${listeners.trimmed * 100}% of them left out at either end, ` : ""}95% interval ${listeners.interval.map((end) => number(end * 100)).join(" to ")}; the server took ${number(listeners.serverOfTraining * 100)}% of the training's processor time`,
  };
}

function againstLines({ ours, tensorBoard }: Against): Line[] {
  if (!tensorBoard) return [];
  const of = (side: Side, what: "ms" | "bytes" | "dataBytes") => median(side.warm.map((one) => one[what]));
  const ratio = (what: "ms" | "bytes" | "dataBytes") => of(tensorBoard, what) / of(ours, what);
  const kib = (side: Side, what: "bytes" | "dataBytes") => `${number(of(side, what) / 1024)} KiB`;
  const times = (what: string, value: number, least: number, about: string): Line => ({
    ...{ what, value, unit: "×", aim: { least }, about },
  });
  return [
    times(
      "first curve, both warm: TensorBoard's time ÷ ours",
      ratio("ms"),
      3,
      `${number(of(tensorBoard, "ms"))} ms beside ${number(of(ours, "ms"))}`,
    ),
    times(
      "the same from the start of the command, nothing read",
      tensorBoard.coldMs / ours.coldMs,
      3,
      `${number(tensorBoard.coldMs)} ms beside ${number(ours.coldMs)}`,
    ),
    times(
      "bytes sent: TensorBoard's ÷ ours",
      ratio("bytes"),
      2,
      `${kib(tensorBoard, "bytes")} beside ${kib(ours, "bytes")}`,
    ),
    times("of these, data", ratio("dataBytes"), 2, `${kib(tensorBoard, "dataBytes")} beside ${kib(ours, "dataBytes")}`),
  ];
}

const isMet = ({ value, aim }: Line) => ("most" in aim ? value <= aim.most : value >= aim.least);

/** Where an interval has the aim within it, both are possible. */
function verdict(line: Line): string {
  const ends = (line.interval ?? [line.value, line.value]).map((value) => isMet({ ...line, value }));
  if (ends.every(Boolean)) return "";
  return ends.some(Boolean) ? "cannot be told" : "missed";
}

const aimText = ({ aim, unit }: Line) =>
  "most" in aim ? `≤ ${aim.most.toLocaleString("en")} ${unit}` : `≥ ${aim.least} ${unit}`;

export const row = (line: Line) =>
  `${verdict(line) === "" ? "  " : "! "}${line.what.padEnd(54)} ${number(line.value).padStart(7)} ${line.unit.padEnd(3)} aim ${aimText(line)}${line.about ? ` (${line.about})` : ""}`;

const occasionText = ({ date, load, browser }: Occasion) =>
  `Chromium ${browser}, ${date}; load ${load.before.toFixed(1)} → ${load.after.toFixed(1)}`;

/** docs/results/dashboard.md. */
export function page(records: Records<DashboardRecord>): string {
  const sections = Object.values(records).map((record) => {
    const { machine, runs, steps } = record;
    return [
      `## ${machine}`,
      "",
      `${runs} runs of ${steps.toLocaleString("en")} steps, ${occasionText(record)}.`,
      ...Object.entries(record.apart ?? {}).map(([part, when]) => `Measured apart: ${part}, ${occasionText(when)}.`),
      ...(record.against.tensorBoard
        ? []
        : ["TensorBoard was not measured: STATESET_PYTHON named no Python that has it."]),
      "",
      "| measure | value | aim | | made of |",
      "| --- | --: | --: | --- | --- |",
      ...linesOf(record).map(
        (line) =>
          `| ${line.what} | ${number(line.value)} ${line.unit} | ${aimText(line)} | ${verdict(line)} | ${line.about ?? ""} |`,
      ),
    ].join("\n");
  });
  return `# What the dashboard takes

<!-- Written by npm run bench:dashboard: do not edit. -->

Runs as \`train()\` writes them, of 35 numbers a step (9 MB of metrics, 13 MB of events and 1 MB of timing a run), one of them with 5,000
conversations of 200 tokens and one of 100,000 tokens; \`stateset-agents dashboard\` as it is installed, and Debian's Chromium without a GPU, on
one machine. Times of views are by the page's own clock, from the navigation (or the change of place within the page) until what is asked for
is drawn and the next frame begins; the middle of three. Work of a frame is processor time of the page's main thread between two frames that
it drew, by the browser's own trace.

Memory of the page is what its process has for itself (RssAnon: objects, canvases, what the browser keeps of them), looked at after each of
these motions; 300 MiB are held against that. All that the system counts for the process at its most (VmHWM) stands beside it: it has in it the
code of the browser, which all its processes share and a page with nothing on it has too, pictures of the page that are shared with the
process that draws, and what was let go of since. Memory of the server is all that the system counts for it at its most,
over all that it is asked for here.

TensorBoard 2 (with its data server) shows the same rewards, one chart of all runs, and reads nothing else; the dashboard's index holds all 35 numbers.
TensorBoard draws 1,000 points of a run that it picked at random, the dashboard 1,000 means over all. The moment of the curve is that of the first
picture of the browser that has half of the coloured points which the chart has in the end, for both; caches of the browser are empty, bytes are
those of HTTP as sent. Both are measured in turns in one run. W&B needs an account or a server of its own, and Trackio packages that are not here:
neither could be run.

Training is GRPO on the starter model, 2 groups of 4 conversations of at most 24 tokens a step. The ten listeners come and go within one run,
block by block in the order A B B A, on the machine that trains: what they themselves take is in it. On a machine that others use, times by the clock say little;
ratios and processor time say more.

${sections.join("\n\n")}
`;
}
