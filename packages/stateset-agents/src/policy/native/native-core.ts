import type { Model } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import type { Version } from "../policy.ts";
import type { LoadedTokenizer } from "../tokenizer/index.ts";
import type { ModelFiles } from "../tokenizer/model-json.ts";
import { loadedVersion, VersionNames } from "../version.ts";
import { onEngine } from "./errors.ts";
import { foresee, type MemoryNeeds, memoryNeeds, parameterCount } from "./memory.ts";
import type { ModelConfig } from "./model-config.ts";
import type { Adapter } from "./peft.ts";
import { requireTrainable, type TrainingPrecision, type WeightForms } from "./precision.ts";

/** A loaded model and what was decided about it. */
export interface NativeParts {
  name: string;
  /** Of the base model: where its files are, and what an adapter calls it. */
  base: { dir: string; name: string };
  /** Where the tokenizer's files are: beside an adapter, or with the base model. */
  tokenizerFiles: ModelFiles;
  config: ModelConfig;
  /** What the engine keeps the base model's matrices as, and the bytes of all of it. */
  forms: WeightForms;
  weightBytes: number;
  /** What a frozen copy of all weights is kept as; undefined: f32, sharing what has not changed. */
  reference: { forms: WeightForms; bytes: number } | undefined;
  /** What the optimiser's moments are kept as. */
  moments: TrainingPrecision;
  /** What gradients are computed from. */
  gradients: TrainingPrecision;
  threads: number;
  model: Model;
  tokenizer: LoadedTokenizer;
  adapter: Adapter | undefined;
  /** Where the adapter was loaded from; undefined for a new one. */
  adapterDir: string | undefined;
  /** Of the numbers the model was opened with. */
  digest: string;
  valueHead: boolean;
  seed: number;
  cacheBytes: number;
  activationBytes: number;
}

/** What the parts of a native policy share: the model, how calls reach it, and what has become of it. */
export class NativeCore {
  readonly parts: NativeParts;
  readonly parameters: number;
  readonly needs: MemoryNeeds;
  /** Names of the weights by the engine's count of changes. */
  readonly names: VersionNames;
  /** Of the weights it was opened with: their name, and the engine's count. */
  readonly opened: Version;
  readonly openedCount: number;
  valueHead: boolean;
  closed = false;
  /** Engines that hold copies of the weights, to be closed with the policy. */
  readonly beside = new Set<Model>();
  /** How many forward passes drew a dropout mask. */
  dropoutPasses = 0;
  #prepared = false;

  constructor(parts: NativeParts) {
    this.parts = parts;
    this.parameters = parameterCount(parts.config.engine);
    const { weightBytes, moments, reference } = parts;
    this.needs = memoryNeeds(parts.config, parts.adapter, { weightBytes, moments, referenceBytes: reference?.bytes });
    this.valueHead = parts.valueHead;
    this.opened = loadedVersion(parts.digest);
    this.openedCount = parts.model.version;
    this.names = new VersionNames(this.openedCount, this.opened);
  }

  /** Work on the engine; its errors become those of the library. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return onEngine(async () => {
      if (this.closed) throw new StatesetError("POLICY_CLOSED", `${this.parts.name} was used after close().`);
      return work();
    });
  }

  /** Work that trains. No turn is lost when nothing is to be prepared: the engine takes calls in the order in which they were made. */
  train<T>(work: () => Promise<T>): Promise<T> {
    return this.run(async () => {
      if (!this.#prepared) await this.prepareTraining();
      return work();
    });
  }

  /** Gradients and moments are reserved when training begins, so that serving a model does not pay for them. */
  async prepareTraining(): Promise<void> {
    if (this.#prepared) return;
    const { name, adapter, model, gradients } = this.parts;
    if (!adapter) {
      requireTrainable(name, this.parts.forms);
      foresee(
        this.needs.optimiser,
        `Training all ${this.parameters} parameters of ${name} (gradients and optimiser state)`,
        "Use LoRA (the `lora` option), a smaller model, or a machine with more memory.",
      );
    }
    if (gradients === "bf16" && !model.gainsByBf16) {
      process.emitWarning(
        `gradients: "bf16" brings no speed here: the engine is on ${model.simd}, without the AMX unit and AVX512-BF16, and what is rounded is multiplied as f32.`,
        { type: "StatesetWarning" },
      );
    }
    await model.setTrainable(adapter ? "adapters" : "full");
    this.#prepared = true;
  }

  get prepared(): boolean {
    return this.#prepared;
  }

  async addValueHead(): Promise<void> {
    if (!this.valueHead) await this.parts.model.addValueHead();
    this.valueHead = true;
  }
}
