import type { Policy } from "../src/policy/policy.ts";

/** The trainable parameters, or their gradients, as numbers to compare. */
export async function readVector(policy: Policy, of: "parameters" | "gradients"): Promise<Float32Array> {
  const vector = await policy.vector(of);
  const numbers = await vector.read();
  vector.release();
  return numbers;
}
