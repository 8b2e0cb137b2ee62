/** A policy that samples once it is told to, for tests of who waits for whom. */
import type { Policy } from "../src/policy/policy.ts";

export interface Gated {
  policy: Policy;
  /** Calls that reached it. */
  readonly asked: number;
  open(): void;
}

export function gated(policy: Policy, slots = 1): Gated {
  let asked = 0;
  let open = () => {};
  const opened = new Promise<void>((settle) => {
    open = settle;
  });
  const sample: Policy["sample"] = async (requests, options = {}) => {
    asked++;
    const left = new Promise<void>((settle) => options.signal?.addEventListener("abort", () => settle()));
    await Promise.race([opened, left]);
    return policy.sample(requests, options);
  };
  const own = Object.create(policy) as Policy;
  Object.assign(own, { sample, stats: () => ({ ...policy.stats(), slots }) });
  return {
    policy: own,
    open,
    get asked() {
      return asked;
    },
  };
}
