import { createHash } from "node:crypto";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { z } from "zod";
import { messageOf, StatesetError } from "../../error.ts";
import type { StoredFile } from "../../policy/policy.ts";

const name = "manifest.json";

const manifestSchema = z.strictObject({
  format: z.literal(1),
  step: z.int().min(0),
  model: z.strictObject({
    name: z.string(),
    architecture: z.string(),
    parameters: z.number(),
    trainableParameters: z.number(),
    vocabSize: z.number(),
  }),
  /** By path with forward slashes. */
  files: z.record(z.string(), z.strictObject({ bytes: z.number(), sha256: z.string() })),
});

export type Manifest = z.output<typeof manifestSchema>;

/**
 * Lists every file below `dir` with its size and hash, and writes the list beside them. Who wrote a large file hashed it meanwhile
 * (`hashed`, by path): only the others are read.
 */
export function writeManifest(
  dir: string,
  facts: Pick<Manifest, "step" | "model">,
  hashed: readonly StoredFile[] = [],
): void {
  const known = new Map(hashed.map((stored) => [stored.file, stored]));
  const files = Object.fromEntries(
    filesBelow(dir).map((path) => {
      const bytes = statSync(join(dir, path)).size;
      const written = known.get(path);
      known.delete(path);
      if (written && written.bytes !== bytes) throw incomplete(dir, path, `has ${bytes} of its ${written.bytes} bytes`);
      return [path, { bytes, sha256: written?.sha256 ?? sha256(join(dir, path)) }];
    }),
  );
  for (const path of known.keys()) throw incomplete(dir, path, "is not there");
  const manifest: Manifest = { format: 1, ...facts, files };
  writeFileSync(join(dir, name), `${JSON.stringify(manifest, null, 2)}\n`);
}

/** Reads a checkpoint's manifest and compares every file with it; throws CHECKPOINT_INVALID that names what is wrong. */
export function verifyManifest(dir: string): Manifest {
  const damaged = (what: string) =>
    new StatesetError("CHECKPOINT_INVALID", `The checkpoint ${dir} is damaged: ${what}.`, {
      hint: "Resume from an earlier one, or from the run's folder, which finds the newest intact one.",
    });
  const path = join(dir, name);
  if (!existsSync(path)) throw damaged(`${name} is missing`);
  let manifest: Manifest;
  try {
    manifest = manifestSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw damaged(`${name} cannot be read (${messageOf(error).split("\n")[0]})`);
  }
  for (const [file, { bytes, sha256: expected }] of Object.entries(manifest.files)) {
    const full = join(dir, file);
    if (!existsSync(full)) throw damaged(`${file} is missing`);
    const size = statSync(full).size;
    if (size !== bytes) throw damaged(`${file} has ${size} bytes instead of ${bytes}`);
    if (sha256(full) !== expected) throw damaged(`${file} does not have the content that was written`);
  }
  return manifest;
}

/** An engine on another machine may write to a folder that only has the same name there. */
function incomplete(dir: string, path: string, what: string): StatesetError {
  return new StatesetError("WRITE_FAILED", `The engine wrote ${path} to ${dir}, where it ${what}.`, {
    hint: "An engine on another machine must see the run's folder under the same path.",
  });
}

function filesBelow(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== name)
    .map((entry) => relative(dir, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .sort();
}

function sha256(path: string): string {
  const hash = createHash("sha256");
  const file = openSync(path, "r");
  const buffer = Buffer.allocUnsafe(1 << 20);
  try {
    for (let read = readSync(file, buffer); read > 0; read = readSync(file, buffer))
      hash.update(buffer.subarray(0, read));
  } finally {
    closeSync(file);
  }
  return hash.digest("hex");
}
