import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { type Model, openModel } from "@stateset-agents/engine";

const { simd: instructions, gainsByBf16 } = await whatTheEngineSays();

/** Whether `gradients: "bf16"` brings speed here. */
export { gainsByBf16 };

/** What results are worth nothing without: "2 cores (Intel Xeon …, engine on avx512), 8 GiB, linux x64, Node 20.20.0". */
export function describeMachine(): string {
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} cores (${processorName()}, engine on ${instructions}), ${memory} GiB, ${process.platform} ${process.arch}, Node ${process.versions.node}`;
}

/** Machines whose results can be compared: "AMD EPYC (family 25, model 17), avx512". Results of one kind replace earlier ones of that kind alone. */
export function machineKind(): string {
  return `${processorName()}, ${instructions}`;
}

/** What the machine could do when it was measured, all in f32 and in billions a second: of one thread, and of all together. */
export interface Roofline {
  /** Of the engine, and of the vector unit that was measured: where the engine uses AMX they differ. */
  simd: string;
  vector: string;
  threads: number;
  /** With everything in registers. */
  gigaMultiplyAdds: { one: number; all: number };
  /** From memory. */
  gigabytesRead: { one: number; all: number };
}

/** Measured in about a second; undefined where cargo or the engine's source is missing, as on machines that have a bundle alone. */
export function measureRoofline(): Roofline | undefined {
  const manifest = fileURLToPath(new URL("../packages/engine/native/Cargo.toml", import.meta.url));
  if (!existsSync(manifest)) return undefined;
  const args = ["run", "--release", "--offline", "--quiet", "--manifest-path", manifest, "--example", "roofline"];
  try {
    return JSON.parse(
      execFileSync("cargo", args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }),
    ) as Roofline;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

export function rooflineText({ vector, threads, gigaMultiplyAdds, gigabytesRead }: Roofline): string {
  const pair = ({ one, all }: { one: number; all: number }) => `${one.toFixed(0)} / ${all.toFixed(0)}`;
  return `one thread / ${threads}: ${pair(gigaMultiplyAdds)} billion f32 multiply-adds a second (${vector}), ${pair(gigabytesRead)} GB/s read from memory`;
}

/** Virtual machines often hide the name of the model, so the numbers of its kind stand beside it where the system tells them. */
function processorName(): string {
  const name = cpus()[0]?.model.trim() ?? "unknown processor";
  if (process.platform !== "linux") return name;
  const about = readFileSync("/proc/cpuinfo", "utf8");
  const [family, model] = ["cpu family", "model"].map(
    (key) => about.match(new RegExp(`^${key}\\s*: (\\d+)$`, "m"))?.[1],
  );
  return family && model ? `${name} (family ${family}, model ${model})` : name;
}

/** Which instructions the engine chose: weights are the same bits on machines with the same ones alone. Told by the smallest model it opens. */
async function whatTheEngineSays(): Promise<Pick<Model, "simd" | "gainsByBf16">> {
  const model = await openModel(
    {
      ...{ vocab: 8, hidden: 8, layers: 1, heads: 1, kvHeads: 1, headDim: 8, inter: 8, maxPositions: 8 },
      ...{ norm: "rms", normEps: 1e-5, mlp: "swiglu", position: "rope", ropeTheta: 10_000, ropeScaling: undefined },
      ...{ tied: true, qkvBias: false, outBias: false, mlpBias: false, qkNorm: false, slidingWindow: undefined },
    },
    { threads: 1, slots: 1, cacheBytes: 1 << 20 },
  );
  const { simd, gainsByBf16 } = model;
  await model.close();
  return { simd, gainsByBf16 };
}
