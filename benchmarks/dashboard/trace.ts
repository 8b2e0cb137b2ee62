/** What the main thread of a page did, frame by frame, by the browser's own trace. */

export interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  /** Microseconds. */
  ts: number;
  dur?: number;
  /** Of processor time. */
  tdur?: number;
  args?: Record<string, unknown>;
}

/** Milliseconds, of processor time: others use the machine too. By the clock where it says so. */
export interface FrameWork {
  frames: number;
  median: number;
  p99: number;
  longest: number;
  /** The longest frame and the longest task by the clock. */
  longestByClock: number;
  longestTask: number;
}

export const traceCategories = ["devtools.timeline", "disabled-by-default-devtools.timeline"];

/** Tasks of a page between two frames that it began are the work of the first one. */
export function frameWork(events: readonly TraceEvent[]): FrameWork {
  const { pid, tid } = mainThread(events);
  const own = events.filter((event) => event.pid === pid && event.tid === tid).sort((a, b) => a.ts - b.ts);
  const begins = own.filter(isFrame).map(({ ts }) => ts);
  const tasks = own.filter(({ name, ph }) => name === "RunTask" && ph === "X");
  const work: { cpu: number; clock: number }[] = begins.map(() => ({ cpu: 0, clock: 0 }));
  let longestTask = 0;
  let frame = -1;
  for (const { ts, dur = 0, tdur = dur } of tasks) {
    // A frame begins within the task that draws it.
    while (frame + 1 < begins.length && begins[frame + 1]! <= ts + dur) frame++;
    longestTask = Math.max(longestTask, tdur);
    const one = work[frame];
    if (!one) continue;
    one.cpu += tdur;
    one.clock += dur;
  }
  const cpu = work.map((one) => one.cpu / 1000).sort((a, b) => a - b);
  const at = (share: number) => cpu[Math.min(cpu.length - 1, Math.floor(share * cpu.length))] ?? 0;
  return {
    frames: cpu.length,
    median: at(0.5),
    p99: at(0.99),
    longest: cpu.at(-1) ?? 0,
    longestByClock: Math.max(0, ...work.map((one) => one.clock)) / 1000,
    longestTask: longestTask / 1000,
  };
}

const isFrame = ({ name, ph }: TraceEvent) => name === "AnimationFrame::Render" && ph === "b";

/** Of the page that drew most: there are spare processes. */
function mainThread(events: readonly TraceEvent[]): { pid: number; tid: number } {
  const frames = new Map<string, { pid: number; tid: number; count: number }>();
  for (const event of events) {
    if (!isFrame(event)) continue;
    const { pid, tid } = event;
    const one = frames.get(`${pid} ${tid}`) ?? { pid, tid, count: 0 };
    one.count++;
    frames.set(`${pid} ${tid}`, one);
  }
  const [most] = [...frames.values()].sort((a, b) => b.count - a.count);
  if (!most) throw new Error("The trace has no frame.");
  return most;
}
