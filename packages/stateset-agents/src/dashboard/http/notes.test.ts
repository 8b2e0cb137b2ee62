import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { createNotes } from "./notes.ts";

it("says why a note could not be kept", async () => {
  const file = join(temporaryFolder(), "file");
  writeFileSync(file, "");
  await expect(createNotes(async () => file).write({ run: "a", note: "b" })).rejects.toMatchObject({
    status: 500,
    message: expect.stringMatching(/^The run's folder cannot be written: E\w+\. What was there before is intact\.$/),
  });
});
