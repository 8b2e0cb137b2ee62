import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { verifyManifest, writeManifest } from "./manifest.ts";

const facts = { step: 3, model: { name: "m", architecture: "a", parameters: 1, trainableParameters: 1, vocabSize: 1 } };
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

function folder(): string {
  const dir = temporaryFolder();
  mkdirSync(join(dir, "policy"));
  writeFileSync(join(dir, "policy", "weights"), "weights");
  writeFileSync(join(dir, "state.json"), "{}");
  return dir;
}

it("takes the hash of who wrote a file, and reads only the others", () => {
  const dir = folder();
  const told = sha256("told");
  writeManifest(dir, facts, [{ file: "policy/weights", bytes: 7, sha256: told }]);
  expect(() => verifyManifest(dir)).toThrow(/policy\/weights does not have the content/);
  writeManifest(dir, facts, [{ file: "policy/weights", bytes: 7, sha256: sha256("weights") }]);
  expect(verifyManifest(dir).files).toEqual({
    "policy/weights": { bytes: 7, sha256: sha256("weights") },
    "state.json": { bytes: 2, sha256: sha256("{}") },
  });
});

it.each([
  ["is not there", { file: "policy/other", bytes: 7 }, /policy\/other .* is not there/],
  ["is cut short", { file: "policy/weights", bytes: 70 }, /policy\/weights .* has 7 of its 70 bytes/],
])("names no checkpoint of a file that %s", (_, stored, message) => {
  const dir = folder();
  expect(() => writeManifest(dir, facts, [{ ...stored, sha256: sha256("") }])).toThrow(message);
  expect(() => verifyManifest(dir)).toThrow(/manifest\.json is missing/);
});
