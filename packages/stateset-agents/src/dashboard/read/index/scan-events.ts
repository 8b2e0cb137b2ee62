/**
 * Lines of events.jsonl but for those of steps, updates and rollouts, which repeat what metrics.jsonl has: these are most of the file, and
 * are told by their head.
 */
import { isShallow } from "../../../nesting.ts";
import type { EventsData } from "../../api/index.ts";

export type RunEvent = EventsData["events"][number];

const newline = 0x0a;
const typeMark = Buffer.from('"type":"');
/** `{"seq":…,"step":…,` are before it. */
const headBytes = 64;
const skipped = ["step", "update", "rollouts"].map((type) => Buffer.from(`${type}"`));

/** `onLine` gets the number of a line, from 1, and its bytes. Answers where the first line that is not whole begins, and its number. */
export function scanEvents(
  bytes: Uint8Array,
  from: number,
  to: number,
  line: number,
  onLine: (line: number, start: number, end: number) => void,
): { at: number; line: number } {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = from;
  let number = line;
  while (at < to) {
    const end = buffer.indexOf(newline, at);
    if (end < 0 || end >= to) break;
    number++;
    if (end > at && !isSkipped(bytes, at, end)) onLine(number, at, end);
    at = end + 1;
  }
  return { at, line: number };
}

function isSkipped(bytes: Uint8Array, start: number, end: number): boolean {
  const last = Math.min(end, start + headBytes);
  for (let at = start; at < last; at++) {
    if (bytes[at] !== 0x22 || !matches(bytes, at, typeMark)) continue;
    return skipped.some((type) => matches(bytes, at + typeMark.length, type));
  }
  return false;
}

function matches(bytes: Uint8Array, at: number, text: Uint8Array): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text[i]) return false;
  return true;
}

/** A line as a record; undefined where it is none. */
export function recordIn(bytes: Uint8Array, start: number, end: number): Record<string, unknown> | undefined {
  try {
    const record: unknown = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString());
    return typeof record === "object" && record !== null && !Array.isArray(record) && isShallow(record)
      ? (record as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined where the record is none. */
export function eventOf(record: Readonly<Record<string, unknown>>): RunEvent | undefined {
  const { seq, step, type } = record;
  if (typeof type !== "string" || typeof step !== "number") return undefined;
  return { ...record, seq: typeof seq === "number" ? seq : null, step, type };
}
