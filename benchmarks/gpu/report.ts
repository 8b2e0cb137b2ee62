/** Writes benchmarks/results/gpu.json: a record for each kind of GPU, the figures of a run over those of earlier ones. */
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { keepRecord, type MachineRecord, readRecords } from "../results.ts";

export type Figures = Record<string, Record<string, number | boolean | string>>;

interface GpuRecord extends MachineRecord {
  /** Each with the day it was `measured`: a run measures what it is asked for, and leaves the rest as it was. */
  figures: Figures;
}

export function keep(figures: Figures, python: string): void {
  const file = fileURLToPath(new URL("../results/gpu.json", import.meta.url));
  const kind = gpuName();
  const before = readRecords<GpuRecord>(file)[kind]?.figures ?? {};
  const date = new Date().toISOString().slice(0, 10);
  const now = Object.entries(figures).map(([name, figure]) => [name, { ...figure, measured: date }]);
  keepRecord<GpuRecord>(file, kind, {
    machine: `${kind}, ${versions(python)}, Node ${process.versions.node}`,
    date,
    figures: { ...before, ...Object.fromEntries(now) },
  });
}

function gpuName(): string {
  const asked = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"];
  return execFileSync("nvidia-smi", asked, { encoding: "utf8" }).trim().split("\n")[0]!;
}

function versions(python: string): string {
  const script =
    "import torch, transformers, peft; print(f'torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}')";
  return execFileSync(python, ["-W", "ignore", "-c", script], { encoding: "utf8" }).trim();
}
