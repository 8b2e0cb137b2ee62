import { appendFile, mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { parseOptions } from "../options.ts";
import type { Tracker } from "../run/tracker.ts";
import { crc32 } from "./crc32.ts";
import { bytesField, concat, message, stringField, varintField } from "./protobuf.ts";

const schema = z.strictObject({
  project: z.string().min(1).default("stateset-agents"),
  entity: z.string().min(1).optional(),
  dir: z.string().min(1).optional(),
});

/**
 * A Weights & Biases offline run in `<run>/wandb/offline-run-…/run-<id>.wandb`, which `wandb sync <folder>` uploads.
 * The file is a LevelDB log of protobuf `Record`s (wandb/proto/wandb_internal.proto), checked with zlib's crc32.
 */
export function wandbTracker(options: { project?: string; entity?: string; dir?: string } = {}): Tracker {
  const { project, entity, dir: chosen } = parseOptions(schema, options, "wandbTracker");
  let log: RecordLog | undefined;
  let startedMs = 0;
  let latest: Readonly<Record<string, number>> = {};
  let row: { step: number; metrics: Readonly<Record<string, number>> } | undefined;
  const runtime = () => Math.max(0, Math.round((Date.now() - startedMs) / 1000));

  /** W&B has one row a step: numbers of a step that come in several calls wait here until the next step, or the end, begins. */
  const writeRow = async (): Promise<void> => {
    if (!row) return;
    const { step, metrics } = row;
    row = undefined;
    const extra = { _step: step, _runtime: runtime(), _timestamp: Date.now() / 1000 };
    const items = Object.entries({ ...metrics, ...extra }).map(([key, value]) => bytesField(1, item(key, value)));
    await log?.write(bytesField(2, message(...items, bytesField(2, varintField(1, step)))));
  };

  return {
    name: "wandb",
    async start(run) {
      startedMs = Date.now();
      const id = wandbId(run.id);
      const stamp = new Date(startedMs).toISOString().replace(/[-:]/g, "").replace("T", "_").slice(0, 15);
      const dir = join(chosen ?? join(run.dir, "wandb"), `offline-run-${stamp}-${id}`);
      await mkdir(join(dir, "files"), { recursive: true });
      log = await RecordLog.create(join(dir, `run-${id}.wandb`));
      const config = Object.entries(run.config).map(([key, value]) => bytesField(1, item(key, value)));
      const record = message(
        stringField(1, id),
        entity === undefined ? undefined : stringField(2, entity),
        stringField(3, project),
        bytesField(4, message(...config)),
        stringField(8, run.id),
        stringField(13, hostname()),
        varintField(14, run.resumedAfter === undefined ? 0 : run.resumedAfter + 1),
        bytesField(17, message(varintField(1, Math.floor(startedMs / 1000)))),
        varintField(18, run.resumedAfter !== undefined),
      );
      // header (21) names the oldest reader that understands the file; run (17) opens the run.
      await log.write(bytesField(21, bytesField(1, message(stringField(1, "0.19.0"), stringField(2, "0.10.0")))));
      await log.write(bytesField(17, record));
    },
    async log(step, metrics) {
      if (row && row.step !== step) await writeRow();
      row = { step, metrics: { ...row?.metrics, ...metrics } };
      latest = { ...latest, ...metrics };
    },
    async finish(outcome) {
      await writeRow();
      const items = Object.entries(latest).map(([key, value]) => bytesField(1, item(key, value)));
      await log?.write(bytesField(3, message(...items)));
      await log?.write(
        bytesField(18, message(varintField(1, outcome.status === "finished" ? 0 : 1), varintField(2, runtime()))),
      );
      await log?.write(bytesField(22, message()));
      log = undefined;
    },
  };
}

/** ConfigItem, HistoryItem and SummaryItem share their fields: key 1, value_json 16. JSON has no NaN; W&B writes it as a word. */
function item(key: string, value: unknown): Uint8Array {
  const json =
    typeof value === "number" && !Number.isFinite(value) ? JSON.stringify(String(value)) : JSON.stringify(value);
  return message(stringField(1, key), stringField(16, json ?? "null"));
}

/** What W&B takes for an id: no path separators, quotes or spaces. */
function wandbId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 128);
}

const blockSize = 32_768;
const headerSize = 7;
const kinds = { full: 1, first: 2, middle: 3, last: 4 };

/** LevelDB's log format: records cut at 32 KiB blocks, each piece with checksum, length and kind. */
class RecordLog {
  private offset = 0;
  private count = 0;

  private constructor(private readonly file: string) {}

  static async create(file: string): Promise<RecordLog> {
    const log = new RecordLog(file);
    // ":W&B", magic 0xBEE1, version 0.
    await log.append([Uint8Array.of(0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0)]);
    return log;
  }

  /** `fields` without the record number, which this adds. */
  async write(fields: Uint8Array): Promise<void> {
    const data = message(varintField(1, ++this.count), fields);
    const pieces: Uint8Array[] = [];
    let end = this.offset;
    let at = 0;
    do {
      let room = blockSize - (end % blockSize);
      if (room < headerSize) {
        pieces.push(new Uint8Array(room));
        end += room;
        room = blockSize;
      }
      const part = data.subarray(at, at + room - headerSize);
      const isLast = at + part.length === data.length;
      const kind = at === 0 ? (isLast ? kinds.full : kinds.first) : isLast ? kinds.last : kinds.middle;
      pieces.push(pieceHeader(part, kind), part);
      end += headerSize + part.length;
      at += part.length;
    } while (at < data.length);
    await this.append(pieces);
  }

  private async append(pieces: readonly Uint8Array[]): Promise<void> {
    const bytes = concat(pieces);
    await appendFile(this.file, bytes);
    this.offset += bytes.length;
  }
}

function pieceHeader(data: Uint8Array, kind: number): Uint8Array {
  const bytes = new Uint8Array(headerSize);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, crc32(data, crc32(Uint8Array.of(kind))), true);
  view.setUint16(4, data.length, true);
  view.setUint8(6, kind);
  return bytes;
}
