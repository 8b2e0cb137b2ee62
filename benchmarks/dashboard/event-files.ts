/** The rewards of runs as TensorBoard's event files: one number a step, which is the curve that both sides draw. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  bytesField,
  concat,
  doubleField,
  floatField,
  message,
  stringField,
  varintField,
} from "../../packages/stateset-agents/src/telemetry/protobuf.ts";
import { tfRecord } from "../../packages/stateset-agents/src/telemetry/tensorboard.ts";

export const tag = "reward";

export function writeEventFiles(runs: string, logs: string): void {
  for (const name of readdirSync(runs)) {
    const began = 1_790_000_000;
    const records = [tfRecord(message(doubleField(1, began), stringField(3, "brain.Event:2")))];
    const metrics = readFileSync(join(runs, name, "metrics.jsonl"), "utf8");
    for (const [, step, value] of metrics.matchAll(/^\{"step":(\d+),.*?"reward":([-\d.e]+)/gm)) {
      const summary = message(bytesField(1, message(stringField(1, tag), floatField(2, Number(value)))));
      const event = message(doubleField(1, began + Number(step)), varintField(2, Number(step)), bytesField(5, summary));
      records.push(tfRecord(event));
    }
    mkdirSync(join(logs, name), { recursive: true });
    writeFileSync(join(logs, name, `events.out.tfevents.${began}.bench.1.0`), concat(records));
  }
}
