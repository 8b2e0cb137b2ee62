/** Keys of conversations and groups: `<run>:<step>:<line>`, `<run>:e<step>:<line>` and `<run>:<step>:<group>`, each part encoded. */
import { wellFormed } from "../../policy/tokenizer/well-formed.ts";
import { HttpError } from "../../server/http-error.ts";

export type StepSet = "training" | "evaluation";

export interface StepKey {
  run: string;
  set: StepSet;
  step: number;
}

export interface TrajectoryKey extends StepKey {
  /** The line of its file, from 0. */
  line: number;
}

export interface GroupKey extends StepKey {
  group: string;
}

const joined = ({ run, set, step }: StepKey, last: string) =>
  `${encodeURIComponent(run)}:${set === "evaluation" ? "e" : ""}${step}:${last}`;

export function trajectoryKey(key: TrajectoryKey): string {
  return joined(key, String(key.line));
}

export function groupKey(key: GroupKey): string {
  return joined(key, encodeURIComponent(wellFormed(key.group)));
}

export function parseTrajectoryKey(text: string): TrajectoryKey {
  const parts = split(text);
  if (!parts || !/^\d{1,9}$/.test(parts.last)) throw noConversation(text);
  const { last, ...key } = parts;
  return { ...key, line: Number(last) };
}

export function parseGroupKey(text: string): GroupKey {
  const parts = split(text);
  if (!parts) throw noGroup(text);
  const { last, ...key } = parts;
  return { ...key, group: last };
}

export const noConversation = (key: string) =>
  new HttpError(404, `There is no conversation ${JSON.stringify(key)}.`, { param: "trajectory" });

export const noGroup = (key: string) =>
  new HttpError(404, `There is no group ${JSON.stringify(key)}.`, { param: "group" });

function split(text: string): (StepKey & { last: string }) | undefined {
  const parts = text.split(":");
  const [, evaluation, step] = /^(e?)(\d{1,9})$/.exec(parts[1] ?? "") ?? [];
  if (parts.length !== 3 || step === undefined) return undefined;
  try {
    const [run, last] = [decodeURIComponent(parts[0]!), decodeURIComponent(parts[2]!)];
    return { run, set: evaluation === "e" ? "evaluation" : "training", step: Number(step), last };
  } catch {
    return undefined;
  }
}
