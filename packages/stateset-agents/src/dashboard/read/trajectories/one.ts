/** One conversation, whole, with its neighbours. */
import type { ConversationRecord } from "../../../conversation/record.ts";
import { messageOf } from "../../../error.ts";
import { HttpError } from "../../../server/http-error.ts";
import type { TrajectoryData } from "../../api/index.ts";
import { noConversation, parseTrajectoryKey, type StepSet, type TrajectoryKey, trajectoryKey } from "../keys.ts";
import type { Library } from "../library.ts";
import type { RunPlace } from "../places.ts";
import { algorithmOf } from "../row.ts";
import { boundsOf } from "../tokens/clip.ts";
import { type RowFacts, rowOfLine } from "./row-facts.ts";
import type { StepFile, StepFiles } from "./step-files.ts";

export interface FoundConversation {
  key: TrajectoryKey;
  place: RunPlace;
  file: StepFile;
  row: RowFacts;
  record: ConversationRecord;
}

export function findConversation(library: Library, text: string): FoundConversation {
  const key = parseTrajectoryKey(text);
  const place = library.place(key.run);
  const file = library.stepFiles.file(place.dir, key.set, key.step);
  const found = file?.lines[key.line];
  if (!file || !found || found.length === 0) throw noConversation(text);
  try {
    return { key, place, file, row: found.row!, record: library.stepFiles.record(file, key.line) };
  } catch (error) {
    throw new HttpError(404, `This conversation cannot be read: ${messageOf(error)}`, {
      param: "trajectory",
      code: "record_damaged",
    });
  }
}

export function trajectoryOf(library: Library, text: string): TrajectoryData {
  const { key, place, file, row, record } = findConversation(library, text);
  const config = library.config(place.dir);
  const beside = (by: 1 | -1) => {
    for (let line = key.line + by; file.lines[line]; line += by)
      if (file.lines[line]!.row) return trajectoryKey({ ...key, line });
    return null;
  };
  return {
    ...rowOfLine(row, key, key.line),
    record: { ...record, messages: record.messages.map((message) => ({ ...message })) },
    previous: beside(-1),
    next: beside(1),
    steps: {
      previous: inNextStep(library.stepFiles, place, key, row, -1),
      next: inNextStep(library.stepFiles, place, key, row, 1),
    },
    algorithm: algorithmOf(config),
    clip: boundsOf(config?.algorithm),
  };
}

/** The next step before or after that was recorded: there, one of the same scenario, or the first. */
function inNextStep(files: StepFiles, place: RunPlace, key: TrajectoryKey, row: RowFacts, by: 1 | -1): string | null {
  const steps = files.steps(place.dir, key.set satisfies StepSet);
  for (let at = steps.indexOf(key.step) + by; steps[at] !== undefined; at += by) {
    const step = steps[at]!;
    const lines = files.file(place.dir, key.set, step)?.lines ?? [];
    const same = lines.findIndex((line) => line.row && line.row.scenario === row.scenario);
    const line = same >= 0 ? same : lines.findIndex((one) => one.row);
    if (line >= 0) return trajectoryKey({ ...key, step, line });
  }
  return null;
}
