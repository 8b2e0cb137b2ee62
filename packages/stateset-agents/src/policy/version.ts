/** Names of weights. Cheap: no weight is read for one, except where weights are loaded. */
import { createHash } from "node:crypto";
import type { Version } from "./policy.ts";

/** Weights that were loaded are named by what they are. */
export function loadedVersion(digest: string): Version {
  return digest.slice(0, 12);
}

/**
 * Weights that were changed are named by what they were and what was done to them: the same change of the same weights gives the same
 * name, in whatever process. `what` must hold a number that depends on the whole change, such as the norm of a gradient.
 */
export function changedVersion(before: Version, ...what: readonly unknown[]): Version {
  return createHash("sha256")
    .update(JSON.stringify([before, ...what]))
    .digest("hex")
    .slice(0, 12);
}

/** The names of an engine that itself only counts its changes. */
export class VersionNames {
  #now: Version;
  readonly #names: { count: number; name: Version | Promise<Version> }[];

  constructor(count: number, name: Version) {
    this.#now = name;
    this.#names = [{ count, name }];
  }

  get now(): Version {
    return this.#now;
  }

  /** Of the last change that was named. */
  get count(): number {
    return this.#names.at(-1)!.count;
  }

  /** Of the weights with this count, or the last before it that was named. Waits for one that is being worked out. */
  at(count: number): Version | Promise<Version> {
    return (this.#names.findLast((entry) => entry.count <= count) ?? this.#names[0]!).name;
  }

  /**
   * To be called as soon as the change is known: replies of the new weights may be next. The name may follow from the one before,
   * which may still be worked out.
   */
  async name(count: number, after: (before: Version) => Version | Promise<Version>): Promise<Version> {
    const before = this.#names.at(-1)!.name;
    const entry = { count, name: typeof before === "string" ? after(before) : before.then(after) };
    this.#names.push(entry);
    // Only replies that are still running ask for old ones.
    if (this.#names.length > 256) this.#names.splice(0, 128);
    const name = await entry.name;
    if (this.#names.at(-1) === entry) this.#now = name;
    return name;
  }
}
