import { appendFile, mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { parseOptions } from "../options.ts";
import type { Tracker } from "../run/tracker.ts";
import { maskedCrc32c } from "./crc32.ts";
import { bytesField, concat, doubleField, floatField, message, stringField, varintField } from "./protobuf.ts";

const schema = z.strictObject({ dir: z.string().min(1).optional() });

/**
 * TensorBoard event files in `<run>/tensorboard/`, written without TensorFlow.
 * Framing: TFRecord (length, masked crc32c of the length, data, masked crc32c of the data).
 * Messages: tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
 */
export function tensorBoardTracker(options: { dir?: string } = {}): Tracker {
  const { dir: chosen } = parseOptions(schema, options, "tensorBoardTracker");
  let file: string | undefined;
  const write = async (...events: Uint8Array[]): Promise<void> => {
    if (file !== undefined) await appendFile(file, concat(events.map(tfRecord)));
  };
  return {
    name: "tensorboard",
    async start(run) {
      const dir = chosen ?? join(run.dir, "tensorboard");
      await mkdir(dir, { recursive: true });
      // Readers take the files of a folder in name order, so a later one must sort later: the time leads.
      const stamp = Date.now();
      const [seconds, ms] = [Math.floor(stamp / 1000), String(stamp % 1000).padStart(3, "0")];
      file = join(dir, `events.out.tfevents.${seconds}.${ms}.${hostname()}.${process.pid}`);
      const events = [event(0, stringField(3, "brain.Event:2"))];
      // A restart mark makes readers drop what an earlier file says beyond this step.
      if (run.resumedAfter !== undefined) events.push(event(run.resumedAfter + 1, bytesField(7, varintField(1, 1))));
      else
        events.push(
          event(0, bytesField(5, textSummary("config", `\`\`\`json\n${JSON.stringify(run.config, null, 2)}\n\`\`\``))),
        );
      await write(...events);
    },
    async log(step, metrics) {
      const values = Object.entries(metrics).map(([tag, value]) =>
        bytesField(1, message(stringField(1, tag), floatField(2, value))),
      );
      await write(event(step, bytesField(5, message(...values))));
    },
    async finish() {
      file = undefined;
    },
  };
}

/** Event { double wall_time = 1; int64 step = 2; … } */
function event(step: number, what: Uint8Array): Uint8Array {
  return message(doubleField(1, Date.now() / 1000), varintField(2, step), what);
}

/** Summary.Value with a one-string tensor and the text plugin's mark. DT_STRING is 7. */
function textSummary(tag: string, text: string): Uint8Array {
  const metadata = bytesField(1, stringField(1, "text"));
  const shape = bytesField(2, bytesField(2, varintField(1, 1)));
  const tensor = message(varintField(1, 7), shape, stringField(8, text));
  return bytesField(1, message(stringField(1, tag), bytesField(8, tensor), bytesField(9, metadata)));
}

export function tfRecord(data: Uint8Array): Uint8Array {
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(data.length), true);
  return concat([length, uint32(maskedCrc32c(length)), data, uint32(maskedCrc32c(data))]);
}

function uint32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
