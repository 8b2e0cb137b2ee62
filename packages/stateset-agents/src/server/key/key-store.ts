/** Keys from a file that may change while they are looked up, and keys that were given by hand. */
import { type BigIntStats, statSync } from "node:fs";
import { messageOf, StatesetError } from "../../error.ts";
import { HttpError } from "../http-error.ts";
import type { Caller, Keys, Scope } from "./caller.ts";
import { callerOf, readKeyFile, type StoredKey } from "./key-file.ts";
import { hashOf, idIn, matches } from "./token.ts";

/** How old what is known of the file may be. */
const lookEveryMs = 500;

interface KnownKey {
  stored: StoredKey;
  hash: Buffer;
  caller: Caller;
  expiresMs: number;
}

/** Compared where no key has the id, so that both ways take as long. */
const nobody = Buffer.alloc(32);

/**
 * The keys of a file, as it is now: each lookup sees a change that is half a second old. A file that was damaged meanwhile lets nobody in
 * (503) until it can be read again, since what it says of revoked keys is not known.
 */
export function openKeyStore(file: string, clock = { now: Date.now, elapsed: () => performance.now() }): Keys {
  let known: Map<string, KnownKey> | undefined;
  let problem: unknown;
  let seenState: string | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  const look = (): void => {
    lookedAt = clock.elapsed();
    const fileState = stateOf(file);
    if (fileState === seenState && problem === undefined) return;
    try {
      const keys = readKeyFile(file) ?? [];
      known = new Map(keys.map((stored) => [stored.id, knownKey(stored)]));
      problem = undefined;
      seenState = fileState;
    } catch (error) {
      known = undefined;
      problem = error;
    }
  };
  look();
  if (problem !== undefined) throw problem;
  if (seenState === absent) {
    throw new StatesetError("CONFIG_NOT_FOUND", `There is no key file ${file}.`, {
      hint: "Make a key with `npx stateset-agents keys create --name NAME`.",
    });
  }
  return {
    find(token) {
      if (clock.elapsed() - lookedAt >= lookEveryMs) look();
      if (known === undefined) {
        throw new HttpError(503, "Keys cannot be checked at the moment.", {
          code: "keys_unreadable",
          headers: { "retry-after-ms": "1000" },
          cause: problem,
        });
      }
      const key = known.get(idIn(token) ?? "");
      // Whoever has only the id of a key is told no more than whoever has nothing.
      if (!matches(token, key?.hash ?? nobody) || !key) return { kind: "unknown" };
      if (key.stored.revokedAt !== undefined) return { kind: "revoked" };
      if (clock.now() >= key.expiresMs) return { kind: "expired" };
      return { kind: "ok", caller: key.caller };
    },
    close() {
      known = new Map();
      lookedAt = Number.POSITIVE_INFINITY;
    },
  };
}

function knownKey(stored: StoredKey): KnownKey {
  const expiresMs = stored.expiresAt === undefined ? Number.POSITIVE_INFINITY : Date.parse(stored.expiresAt);
  return { stored, hash: Buffer.from(stored.hash, "hex"), caller: callerOf(stored), expiresMs };
}

const absent = "absent";

/** Differs whenever the file was written: it is always replaced whole, so its number changes or its time does. */
function stateOf(file: string): string {
  let stat: BigIntStats | undefined;
  try {
    stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    return messageOf(error);
  }
  return stat === undefined ? absent : [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(" ");
}

/** Keys that were given on the command line or in code: project "default", everything but administration unless `scopes` say otherwise. */
export function staticKeys(
  tokens: readonly string[],
  { project = "default", scopes = ["infer", "read", "metrics"] as readonly Scope[] } = {},
): Keys {
  const known = tokens.map((token, i) => {
    // What a header cannot carry would never match.
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw new StatesetError("INVALID_OPTION", `API key ${i + 1} is empty or has spaces or letters outside ASCII.`);
    }
    const caller: Caller = { keyId: `given-${i + 1}`, project, scopes: new Set(scopes), limits: {} };
    return { hash: hashOf(token), caller };
  });
  return {
    find(token) {
      // All of them, whichever it is.
      const found = known.filter(({ hash }) => matches(token, hash));
      return found.length > 0 ? { kind: "ok", caller: found[0]!.caller } : { kind: "unknown" };
    },
    close() {},
  };
}
