import { StatesetError } from "../error.ts";
import type { ParameterVector } from "./policy.ts";

/** A vector in this process, in float64: that of an engine whose parameters are here, too. */
export class ArrayVector implements ParameterVector {
  #values: Float64Array | undefined;

  constructor(values: ArrayLike<number>) {
    this.#values = new Float64Array(values);
  }

  get values(): Float64Array {
    if (this.#values) return this.#values;
    throw new StatesetError("INVALID_OPTION", "A vector was used after release().");
  }

  get length(): number {
    return this.values.length;
  }

  async dot(other: ParameterVector): Promise<number> {
    const [a, b] = [this.values, this.#alike(other)];
    let sum = 0;
    for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
    return sum;
  }

  async add(other: ParameterVector, scale = 1): Promise<void> {
    const [a, b] = [this.values, this.#alike(other)];
    for (let i = 0; i < a.length; i++) a[i]! += scale * b[i]!;
  }

  async scale(by: number): Promise<void> {
    const { values } = this;
    for (let i = 0; i < values.length; i++) values[i]! *= by;
  }

  async copy(): Promise<ArrayVector> {
    return new ArrayVector(this.values);
  }

  async read(): Promise<Float32Array> {
    return Float32Array.from(this.values);
  }

  release(): void {
    this.#values = undefined;
  }

  #alike(other: ParameterVector): Float64Array {
    const values = arrayOf(other);
    if (values.length === this.length) return values;
    throw new StatesetError("INVALID_OPTION", `A vector of ${values.length} numbers meets one of ${this.length}.`);
  }
}

/** The numbers of a vector that an engine in this process is given. */
export function arrayOf(vector: ParameterVector): Float64Array {
  if (!(vector instanceof ArrayVector)) {
    throw new StatesetError("INVALID_OPTION", "The vector is of another engine.", {
      hint: "Take vectors from the policy that is to use them, with vector().",
    });
  }
  return vector.values;
}
