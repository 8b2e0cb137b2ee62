import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { checkpointPath } from "./checkpoint-path.ts";
import type { CliIo } from "./io.ts";

it("finds a run by its name, and checkpoints inside it", async () => {
  const cwd = await temporaryFolder();
  const run = join(cwd, "runs", "polite");
  mkdirSync(join(run, "checkpoints"), { recursive: true });
  writeFileSync(join(run, "config.json"), '{"id": "polite"}');
  const at = (text: string) => checkpointPath(text, { cwd } as CliIo);
  expect(at("polite")).toBe(run);
  expect(at("runs/polite")).toBe(run);
  expect(at("polite/best")).toBe(join(run, "checkpoints", "best"));
  expect(at("polite/last")).toBe(join(run, "checkpoints", "last"));
  expect(at("polite/checkpoints/step-000004")).toBe(join(run, "checkpoints", "step-000004"));
  for (const short of [
    "polite/step-4",
    "polite/checkpoints/step-4",
    "runs/polite/checkpoints/step-4",
    "polite/step-000004",
  ]) {
    expect(at(short)).toBe(join(run, "checkpoints", "step-000004"));
  }
  expect(at("other/best")).toBe(join(cwd, "other", "best"));
});
