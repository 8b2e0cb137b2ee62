import { availableParallelism, cpus, totalmem } from "node:os";
import { openModel } from "@stateset-agents/engine";

const instructions = await instructionSet();

/** What results are worth nothing without: "2 cores (Intel Xeon …, engine on avx512), 8 GiB, linux x64, Node 20.20.0". */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} cores (${model}, engine on ${instructions}), ${memory} GiB, ${process.platform} ${process.arch}, Node ${process.versions.node}`;
}

/** Which instructions the engine chose: weights are the same bits on machines with the same ones alone. Told by the smallest model it opens. */
async function instructionSet(): Promise<string> {
  const model = await openModel(
    {
      ...{ vocab: 8, hidden: 8, layers: 1, heads: 1, kvHeads: 1, headDim: 8, inter: 8, maxPositions: 8 },
      ...{ norm: "rms", normEps: 1e-5, mlp: "swiglu", position: "rope", ropeTheta: 10_000, ropeScaling: undefined },
      ...{ tied: true, qkvBias: false, outBias: false, mlpBias: false, qkNorm: false, slidingWindow: undefined },
    },
    { threads: 1, slots: 1, cacheBytes: 1 << 20 },
  );
  const { simd } = model;
  await model.close();
  return simd;
}
