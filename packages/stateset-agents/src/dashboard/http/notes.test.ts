import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { createNotes } from "./notes.ts";

it("says why a note could not be kept", async () => {
  const dir = temporaryFolder();
  mkdirSync(join(dir, "notes.json", "in-the-way"), { recursive: true });
  await expect(createNotes(async () => dir).write({ run: "a", note: "b" })).rejects.toMatchObject({
    status: 500,
    message: expect.stringMatching(/^The run's folder cannot be written: E\w+\. What was there before is intact\.$/),
  });
});
