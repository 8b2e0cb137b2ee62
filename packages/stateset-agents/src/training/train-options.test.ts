import { describe, expect, it } from "vitest";
import { defineAlgorithm } from "../algorithm/define-algorithm.ts";
import { tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { splitOptions, type TrainOptions } from "./train-options.ts";

const parts = { agent: tableAgent().agent, environment: tableEnvironment() };

describe("the options of train()", () => {
  it("are type errors when they belong to another algorithm or to none", () => {
    const options: TrainOptions[] = [
      { ...parts, steps: 3 },
      { ...parts, epsilonHigh: 0.3 },
      { ...parts, algorithm: "dapo", overlongPenalty: 0.5 },
      // @ts-expect-error GRPO has no overlong shaping.
      { ...parts, algorithm: "grpo", overlongPenalty: 0.5 },
      // @ts-expect-error Nor has the default algorithm, which is GRPO.
      { ...parts, overlongPenalty: 0.5 },
      // @ts-expect-error There is no such option.
      { ...parts, learningrate: 1 },
      // @ts-expect-error There is no such algorithm.
      { ...parts, algorithm: "grop" },
    ];
    expect(options.length).toBe(7);
  });

  it("are sorted into the run's, the algorithm's and the rest", () => {
    const { training, algorithm } = splitOptions({
      ...parts,
      algorithm: "dapo",
      epsilonHigh: 0.3,
      steps: 4,
      dir: false,
    });
    expect(training).toEqual({ steps: 4 });
    expect(algorithm).toEqual({ algorithm: "dapo", epsilonHigh: 0.3 });
    expect(splitOptions({ ...parts, epsilonLow: 0.1 }).algorithm).toEqual({ epsilonLow: 0.1 });
    expect(splitOptions({ ...parts }).algorithm).toBeUndefined();
  });

  it("name what is no tracker, and what it lacks", () => {
    const tracker = { name: "mine", start() {}, log() {}, finish() {} };
    expect(splitOptions({ ...parts, trackers: [tracker] }).parts.trackers).toEqual([tracker]);
    const given = (trackers: unknown) => () => splitOptions({ ...parts, trackers } as never);
    expect(given([tracker, {}])).toThrow('The option "trackers" of train() holds no tracker at [1]: it has no name.');
    expect(given([{ ...tracker, log: undefined }])).toThrow(/at \[0\]: it has no log\(\)/);
    expect(given(["wandb"])).toThrow(/at \[0\]: it has no name/);
    expect(given(tracker)).toThrow(/is no list of trackers/);
  });

  it("need an agent and an environment, and no stray option beside an Algorithm", () => {
    expect(() => splitOptions({ environment: parts.environment } as never)).toThrow(/needs the option "agent"/);
    const algorithm = defineAlgorithm({
      name: "mine",
      advantages: (sequences) => sequences.map(({ old }) => ({ advantages: new Float32Array(old.length) })),
      loss: (micro) => ({ loss: 0, dLogprobs: micro.map(({ old }) => new Float32Array(old.length)), metrics: {} }),
    });
    expect(splitOptions({ ...parts, algorithm }).algorithm).toBe(algorithm);
    expect(() => splitOptions({ ...parts, algorithm, epsilonHigh: 1 } as never)).toThrow(
      /"epsilonHigh" cannot be given/,
    );
  });
});
