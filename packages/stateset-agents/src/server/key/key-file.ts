/** The file that holds the keys: their hashes, never the keys. Changed under a lock and put in place whole. */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { makeFolders, writeFailed, writeJsonAtomic } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { takeLock } from "../../file-lock.ts";
import { parseOptions } from "../../options.ts";
import { type Caller, scopes } from "./caller.ts";
import { createToken, hashOf, idPattern } from "./token.ts";

const limit = z.int().positive().optional();
const time = z.iso.datetime();

/** What a key is made with. */
const keySchema = z.strictObject({
  name: z.string().min(1).max(200),
  project: z
    .string()
    .regex(/^[\w.-]{1,64}$/, "up to 64 letters, digits, dots, dashes and underscores")
    .default("default"),
  scopes: z.array(z.enum(scopes)).min(1).default(["infer", "read"]),
  /** The models it may name; left out: all. */
  models: z.array(z.string().min(1)).min(1).optional(),
  requestsPerMinute: limit,
  tokensPerMinute: limit,
  concurrency: limit,
  expiresAt: time.optional(),
});

const storedSchema = keySchema.required({ project: true, scopes: true }).extend({
  id: z.string().regex(idPattern),
  /** SHA-256 of the whole key, in hex. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  createdAt: time,
  revokedAt: time.optional(),
});

const fileSchema = z.strictObject({ version: z.literal(1), keys: z.array(storedSchema) });

export type NewKey = z.input<typeof keySchema>;
export type StoredKey = z.output<typeof storedSchema>;

/** Throws INVALID_DATA for a file that is no key file, and touches nothing. Undefined where there is none. */
export function readKeyFile(file: string): StoredKey[] | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new StatesetError("INVALID_DATA", `The key file ${file} cannot be read: ${messageOf(error)}.`, {
      cause: error,
    });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's own message quotes the file.
    throw damaged(file, "it is not JSON");
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) {
    const { path, code, message } = parsed.error.issues[0]!;
    throw damaged(file, `${path.join(".") || "the file"}: ${code === "unrecognized_keys" ? "unknown field" : message}`);
  }
  const { keys } = parsed.data;
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw damaged(file, "two keys have the same id");
  return keys;
}

function damaged(file: string, why: string): StatesetError {
  return new StatesetError("INVALID_DATA", `The key file ${file} is damaged: ${why}.`, {
    hint: "Nothing was changed. Repair it by hand, or move it away and make new keys.",
  });
}

/** The key as its owner gets it, once: what is kept does not lead back to it. */
export async function createKey(
  file: string,
  options: NewKey,
  now = Date.now(),
): Promise<{ token: string; key: StoredKey }> {
  const given = parseOptions(keySchema, options, "keys create");
  if (given.expiresAt !== undefined && Date.parse(given.expiresAt) <= now) {
    throw new StatesetError("INVALID_OPTION", `The key would have expired already, at ${given.expiresAt}.`);
  }
  const { id, token } = createToken();
  const key: StoredKey = { id, ...given, hash: hashOf(token).toString("hex"), createdAt: new Date(now).toISOString() };
  await change(file, (keys) => [...keys, key]);
  return { token, key };
}

/** Revokes a key from now on; one that is revoked already keeps its time. */
export async function revokeKey(file: string, id: string, now = Date.now()): Promise<StoredKey> {
  let revoked: StoredKey | undefined;
  await change(file, (keys) =>
    keys.map((key) => {
      if (key.id !== id) return key;
      revoked = { ...key, revokedAt: key.revokedAt ?? new Date(now).toISOString() };
      return revoked;
    }),
  );
  if (!revoked) {
    throw new StatesetError("INVALID_OPTION", `There is no key ${id} in ${file}.`, {
      hint: "`npx stateset-agents keys list` shows the ids.",
    });
  }
  return revoked;
}

/** What the key allows. */
export function callerOf(key: StoredKey): Caller {
  const { id, project, models, requestsPerMinute, tokensPerMinute, concurrency } = key;
  const limits = { requestsPerMinute, tokensPerMinute, concurrency };
  return { keyId: id, project, scopes: new Set(key.scopes), models, limits };
}

const lockTries = 200;
const lockWaitMs = 25;

/** Reads, changes and writes while nobody else does: of two processes that add a key at once, none is lost. */
async function change(file: string, edit: (keys: readonly StoredKey[]) => StoredKey[]): Promise<void> {
  try {
    makeFolders(dirname(file));
  } catch (error) {
    throw writeFailed(file, error);
  }
  for (let tries = 0; tries < lockTries; tries++) {
    const taken = takeLock(`${file}.lock`);
    if (taken && "lock" in taken) {
      try {
        const keys = edit(readKeyFile(file) ?? []);
        writeJsonAtomic(file, { version: 1, keys }, { mode: 0o600 });
        return;
      } finally {
        taken.lock.release();
      }
    }
    await sleep(lockWaitMs);
  }
  throw new StatesetError(
    "WRITE_FAILED",
    `Could not write ${file}: another process has held ${file}.lock all the while.`,
    {
      hint: "Try again; what was there before is intact.",
    },
  );
}
