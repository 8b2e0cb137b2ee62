import type { WeightForm } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import type { WeightInfo } from "../weights/index.ts";
import type { TensorPlace } from "./tensor-names.ts";

export const precisions = ["file", "f32", "bf16", "int8"] as const;

/**
 * How the weights of the base model lie in memory: as their file holds them, as 32-bit floats, in 16 bits, or in 8 bits with a scale
 * for every 32. What is smaller than f32 is turned into it as it is read, and can be trained by an adapter alone.
 */
export type Precision = (typeof precisions)[number];

/** Of the frozen copy of a model all of whose weights are trained. */
export const referencePrecisions = ["f32", "bf16"] as const;
export type ReferencePrecision = (typeof referencePrecisions)[number];

/** Of what training adds: AdamW's two moments, or the operands of gradient products. */
export const trainingPrecisions = ["f32", "bf16"] as const;
export type TrainingPrecision = (typeof trainingPrecisions)[number];

/** By names of the engine; what is not named is f32. */
export type WeightForms = Readonly<Record<string, WeightForm>>;

/** What the files hold, by where it belongs. */
export type StoredTypes = ReadonlyMap<TensorPlace, WeightInfo["dtype"]>;

/** Bytes a number takes in the engine's memory, with its share of the scales. */
const bytesPerNumber: Record<WeightForm, number> = {
  f32: 4,
  bf16: 2,
  f16: 2,
  q8_0: 34 / 32,
  q4_0: 18 / 32,
  q4_1: 20 / 32,
  q5_0: 22 / 32,
  q5_1: 24 / 32,
  q4_k: 148 / 256,
  q5_k: 180 / 256,
  q6_k: 210 / 256,
};

/** Whatever the files hold. */
export const leastBytesPerNumber = Math.min(...Object.values(bytesPerNumber));

const isForm = (name: string): name is WeightForm => Object.hasOwn(bytesPerNumber, name);

/** Blocks of a file are taken as they are: rounding what they say anew could change it. */
export const isBlocks = (form: WeightForm | undefined): boolean => form?.startsWith("q") ?? false;

/** What is multiplied with, and the table of tokens. All else is small, and always f32. */
const isMatrix = ({ shape, parts }: TensorPlace): boolean => shape.length === 2 && parts[0]?.engine !== "position";

/** Frozen weights stay as small as their file. So does a quantised file: who took one may not have the memory for f32. */
export function defaultPrecision(stored: StoredTypes, frozen: boolean): Precision {
  const quantised = [...stored].some(([place, type]) => isMatrix(place) && isBlocks(formOf(type)));
  return frozen || quantised ? "file" : "f32";
}

const formOf = (type: WeightInfo["dtype"]): WeightForm => {
  const name = type.toLowerCase();
  return isForm(name) ? name : "f32";
};

export function weightForms(stored: StoredTypes, precision: Precision): WeightForms {
  const forms: Record<string, WeightForm> = {};
  for (const [place, type] of stored) {
    if (!isMatrix(place)) continue;
    const columns = place.shape[place.transposed ? 0 : 1]!;
    const wanted = {
      file: formOf(type),
      f32: "f32",
      bf16: "bf16",
      int8: columns % 32 === 0 ? "q8_0" : "bf16",
    } as const;
    if (wanted[precision] === "f32") continue;
    for (const { engine } of place.parts) forms[engine] = wanted[precision];
  }
  return forms;
}

/** Bytes of the base model in memory. */
export function weightBytes(stored: StoredTypes, forms: WeightForms): number {
  let bytes = 0;
  for (const { shape, parts } of stored.keys()) {
    const numbers = shape.reduce((product, size) => product * size, 1);
    bytes += numbers * bytesPerNumber[forms[parts[0]!.engine] ?? "f32"];
  }
  return bytes;
}

/** Refuses to train all weights where they are kept small. */
export function requireTrainable(name: string, forms: WeightForms): void {
  const small = Object.values(forms)[0];
  if (small === undefined) return;
  throw new StatesetError(
    "INVALID_OPTION",
    `The weights of ${name} are kept as ${small}, and such weights are frozen.`,
    {
      hint: 'Train an adapter (`lora: true`, on the command line --lora), or open it with `precision: "f32"` to train all of it.',
    },
  );
}

/** What a frozen copy of all weights is kept as, where it is to be smaller than they are. */
export function smallReference(
  stored: StoredTypes,
  precision: ReferencePrecision | undefined,
  adapted: boolean,
): { forms: WeightForms; bytes: number } | undefined {
  if (precision === undefined || precision === "f32") return undefined;
  if (adapted) {
    throw new StatesetError(
      "INVALID_OPTION",
      `referencePrecision is "${precision}", but an adapter is trained: its reference is the model under it, and no copy.`,
      { hint: "Leave referencePrecision out, or train all weights (without lora)." },
    );
  }
  const forms = weightForms(stored, precision);
  return { forms, bytes: weightBytes(stored, forms) };
}
