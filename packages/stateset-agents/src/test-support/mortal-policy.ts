/** A table policy whose worker is lost now and then, and can be had anew: with the weights it was opened with. */
import { type ErrorCode, StatesetError } from "../error.ts";
import { createTablePolicy, type TablePolicy } from "./table-policy.ts";

export interface MortalPolicy extends TablePolicy {
  revive(): Promise<void>;
  /** How often it was. */
  revived: number;
}

/** `deaths`: counts of calls of the method, over all workers, at which the worker is lost; of `revive`, the next one as it starts. `another`: whether there is one afterwards. */
export function createMortalPolicy(
  deaths: Partial<Record<"sample" | "step" | "forward" | "snapshot" | "save" | "revive", readonly number[]>>,
  { code = "WORKER_LOST", another = true }: { code?: ErrorCode; another?: boolean } = {},
): MortalPolicy {
  let worker = createTablePolicy();
  let lost: StatesetError | undefined;
  const calls = new Map<string, number>();
  const own = {
    revived: 0,
    async revive() {
      if (!lost) return;
      if (!another) throw new StatesetError("ENGINE_UNAVAILABLE", "nobody answers");
      lost = undefined;
      dying("revive");
      worker = createTablePolicy();
      own.revived++;
    },
  };
  const dying = (name: string) => {
    const count = (calls.get(name) ?? 0) + 1;
    calls.set(name, count);
    const at: readonly number[] = deaths[name as keyof typeof deaths] ?? [];
    if (at.includes(count)) lost = new StatesetError(code, `The worker was lost in ${name}() ${count}.\nIts stacks`);
    if (lost) throw lost;
  };
  return new Proxy(worker, {
    get(_, name) {
      if (name in own) return own[name as keyof typeof own];
      const value = worker[name as keyof TablePolicy];
      // Its description is known here, whatever became of the worker.
      if (typeof value !== "function" || ["stats", "plan", "idOf", "close"].includes(String(name))) return value;
      return async (...given: unknown[]) => {
        dying(String(name));
        return (value as (...given: unknown[]) => unknown)(...given);
      };
    },
  }) as MortalPolicy;
}
