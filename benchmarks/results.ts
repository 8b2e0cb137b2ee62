/** Files of results that keep one record for each kind of machine (processor and instructions): a run replaces that of its own kind alone. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export interface MachineRecord {
  machine: string;
  date: string;
}

/** By kind of machine, as machineKind() names it. */
export type Records<R extends MachineRecord> = Record<string, R>;

export function readRecords<R extends MachineRecord>(file: string): Records<R> {
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Records<R>) : {};
}

/** Returns all that the file now holds. */
export function keepRecord<R extends MachineRecord>(file: string, kind: string, record: R): Records<R> {
  const records = { ...readRecords<R>(file), [kind]: record };
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(records, undefined, 2)}\n`);
  return records;
}
