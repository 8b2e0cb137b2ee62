import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { TensorSpec, WeightsLoad } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import { openWeightFiles, type Weights } from "../weights/index.ts";
import type { ModelConfig } from "./model-config.ts";
import type { Adapter } from "./peft.ts";
import type { TrainingPrecision } from "./precision.ts";
import { kindOf, mismatch, type SnapshotState, type TensorKind } from "./snapshot.ts";
import { adapterPlaces, extractPart, insertPart, type TensorPlace, tensorPlaces, valuePlaces } from "./tensor-names.ts";
import { sizeOf, type TensorTarget } from "./weights.ts";

/** The model that tensors are of. */
export interface TensorsOf {
  config: ModelConfig;
  adapter: Adapter | undefined;
  /** As the engine has them now. */
  specs: readonly TensorSpec[];
}

/** What a model has of some kinds, by the names of Hugging Face and PEFT. */
export function placesOf(
  { config: { architecture, engine }, adapter, specs }: TensorsOf,
  kinds: readonly TensorKind[],
): TensorPlace[] {
  const head = specs.some(({ name }) => kindOf(name) === "value");
  const places = {
    base: () => tensorPlaces(architecture, engine),
    adapter: () => (adapter ? adapterPlaces(adapter.modules, adapter.lora.rank) : []),
    value: () => (head ? valuePlaces(engine.hidden) : []),
  };
  return kinds.flatMap((kind) => places[kind]());
}

/** The same by the names of the engine, as files had them before. */
export function oldPlacesOf({ specs }: TensorsOf, kinds: readonly TensorKind[]): TensorPlace[] {
  return specs
    .filter(({ name }) => kinds.includes(kindOf(name)))
    .map(({ name, rows, cols }) => ({
      ...{ name, shape: [rows, cols], transposed: false },
      parts: [{ engine: name, from: 0, rows }],
    }));
}

/** What training changes, and a snapshot holds. */
export function trainedKinds(lora: unknown): TensorKind[] {
  return [lora ? "adapter" : "base", "value"];
}

/** The tensors of a snapshot, checked against those of a model: names, shapes, and that the files hold them. */
export class SnapshotTensors {
  readonly #dir: string;
  readonly #weights: Weights;
  readonly #state: SnapshotState;
  /** What is trained, and so is in every snapshot of this model. */
  readonly #places: readonly TensorPlace[];

  private constructor(dir: string, weights: Weights, state: SnapshotState, places: readonly TensorPlace[]) {
    this.#dir = dir;
    this.#weights = weights;
    this.#state = state;
    this.#places = places;
  }

  /** `anyHead`: whether it may have a value head that the model lacks, or lack the model's. */
  static async open(dir: string, of: TensorsOf, state: SnapshotState, anyHead = false): Promise<SnapshotTensors> {
    const places = (state.format === 2 ? oldPlacesOf : placesOf)(of, trainedKinds(state.lora));
    checkShapes(dir, places, state, anyHead);
    const weights = await openStored(dir, state.files).catch((cause: unknown) => {
      throw new StatesetError("CHECKPOINT_INVALID", `The tensors of the snapshot in ${dir} cannot be read.`, { cause });
    });
    const tensors = new SnapshotTensors(dir, weights, state, places);
    try {
      for (const place of tensors.#present()) for (const end of ["", ":m", ":v"]) tensors.#checkSize(place, end);
      return tensors;
    } catch (error) {
      await weights.close();
      throw error;
    }
  }

  #checkSize(place: TensorPlace, end: string): void {
    const full = `${place.name}${end}`;
    const size = this.#weights.has(full) ? this.#weights.info(full).shape.reduce((a, b) => a * b, 1) : -1;
    if (size === sizeOf(place)) return;
    throw new StatesetError(
      "CHECKPOINT_INVALID",
      `The snapshot in ${this.#dir} lacks ${full}, or has it in another size.`,
    );
  }

  /** Refuses moments of another precision: rounded once more, they would not be those of the run that wrote them. */
  requireMoments(here: TrainingPrecision): void {
    const place = this.#present()[0];
    const there = place && this.#weights.info(`${place.name}:m`).dtype === "BF16" ? "bf16" : "f32";
    if (there === here) return;
    throw new StatesetError(
      "CHECKPOINT_MISMATCH",
      `The snapshot in ${this.#dir} has the optimiser's moments in ${there}, and they are kept in ${here} here.`,
      { hint: `Open the model with moments: "${there}" to go on with it, or begin a new run from its weights.` },
    );
  }

  #present(): TensorPlace[] {
    return this.#places.filter(({ name }) => name in this.#state.shapes);
  }

  async #read(name: string): Promise<Float32Array> {
    return this.#weights.read(name).catch((cause: unknown) => {
      throw new StatesetError("CHECKPOINT_INVALID", `The tensors of the snapshot in ${this.#dir} are damaged.`, {
        cause,
      });
    });
  }

  /** The trained weights alone. */
  async weightsInto(target: TensorTarget): Promise<void> {
    for (const place of this.#present()) {
      const data = await this.#read(place.name);
      if (!isApart(place, data)) throw sharedAdapter(this.#dir, place);
      for (const part of place.parts) await target.setTensor(part.engine, extractPart(place, part, data));
    }
  }

  /** With the optimiser's state. */
  async allInto(load: WeightsLoad): Promise<void> {
    await this.weightsInto(load);
    for (const place of this.#present()) {
      const [m, v] = [await this.#read(`${place.name}:m`), await this.#read(`${place.name}:v`)];
      for (const part of place.parts) {
        await load.setMoments(part.engine, extractPart(place, part, m), extractPart(place, part, v));
      }
    }
    await load.setStepCounts(...this.#state.steps);
  }

  close(): Promise<void> {
    return this.#weights.close();
  }
}

/** Opens what was stored; one that was cut short is noticed before its tensors are read. */
export async function openStored(dir: string, files: SnapshotState["files"]): Promise<Weights> {
  for (const { file, bytes } of files) {
    const { size } = await stat(join(dir, file));
    if (bytes !== undefined && size !== bytes) throw new Error(`${file} has ${size} bytes instead of ${bytes}`);
  }
  return openWeightFiles(files.map(({ file }) => join(dir, file)));
}

function checkShapes(dir: string, places: readonly TensorPlace[], { shapes }: SnapshotState, anyHead: boolean): void {
  for (const { name, shape: here, parts } of places) {
    const shape = shapes[name];
    if (!shape && anyHead && kindOf(name) === "value") continue;
    if (shape?.join() === here.join()) continue;
    if (shape && kindOf(name) === "adapter" && parts.length > 1) throw sharedAdapter(dir, { name, parts });
    throw mismatch(dir, `${name} is [${here.join(", ")}] here`);
  }
  const known = new Set(places.map(({ name }) => name));
  const foreign = Object.keys(shapes).filter((name) => !known.has(name));
  if (foreign.some((name) => !anyHead || kindOf(name) !== "value")) {
    throw mismatch(dir, "it has other trainable tensors");
  }
}

/** Whether what lies beside the parts is zero, as adapterPlaces() says. */
function isApart(place: TensorPlace, data: Float32Array): boolean {
  if (!place.parts.some(({ columns }) => columns)) return true;
  const whole = new Float32Array(data.length);
  for (const part of place.parts) insertPart(place, part, extractPart(place, part, data), whole);
  return data.every((value, i) => value === whole[i]);
}

function sharedAdapter(dir: string, { name, parts: all }: Pick<TensorPlace, "name" | "parts">): StatesetError {
  const parts = all.map(({ engine }) => engine.split(".")[2]!);
  const module = name.replace(/^base_model\.model\./, "").replace(/\.lora_[AB]\.weight$/, "");
  return new StatesetError(
    "CHECKPOINT_MISMATCH",
    `The snapshot in ${dir} has one adapter for the ${parts.slice(0, -1).join(", ")} and ${parts.at(-1)} of ${module}; this engine trains one for each.`,
    {
      hint: `Such a run cannot change engines: go on where it began, leave ${module.split(".").at(-1)} out of targetModules, or load the adapter that save() wrote and begin a new run with it.`,
    },
  );
}
