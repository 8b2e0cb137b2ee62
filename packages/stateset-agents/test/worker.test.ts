/** The worker's own tests, and its frames against ours. Needs STATESET_PYTHON, but for the version. */
import { execFile, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../src/canonical-json.ts";
import { messageOf } from "../src/error.ts";
import { type Frame, FrameReader, maxFirstFrameBytes } from "../src/policy/torch/frame.ts";
import { example, mutatedFrames, u64 } from "../src/policy/torch/mutated-frames.cases.ts";

const python = process.env.STATESET_PYTHON;
const folder = fileURLToPath(new URL("../../../python", import.meta.url));

it("has the version of the package it comes with", () => {
  const manifest = new URL("../package.json", import.meta.url);
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  expect(readFileSync(`${folder}/stateset_agents_worker/__init__.py`, "utf8")).toContain(`__version__ = "${version}"`);
});

describe.skipIf(!python)("the worker", () => {
  const names = readdirSync(`${folder}/tests`).filter((name) => /^test_\w+\.py$/.test(name));
  // Those that start processes have one of their own; the rest share one, since to import PyTorch takes as long as most of them.
  const apart = /^test_(decode_kernel|process|ranks|serve|sharded|torchrun)\.py$/;
  const runs = [
    ...names.filter((name) => apart.test(name)).map((name) => [name]),
    names.filter((name) => !apart.test(name)),
  ];
  // Side by side: those that start processes wait for them more than they compute.
  it.concurrent.each(runs)("passes %s and those beside it", { timeout: 600_000 }, async (...files) => {
    const modules = files.map((name) => `tests.${name.slice(0, -3)}`);
    const said = await new Promise<string>((resolve) => {
      const env = { ...process.env, OMP_NUM_THREADS: "1" };
      execFile(python!, ["-m", "unittest", ...modules], { cwd: folder, env }, (_, __, stderr) => resolve(stderr));
    });
    expect(said.trimEnd().split("\n").at(-1), said.slice(-4000)).toMatch(/^OK/);
  });

  it("reads and writes 10,000 frames, most of them damaged, as we do", async () => {
    const sent = [example, Buffer.concat([example, example]), ...mutatedFrames(10_000, 23)];
    const answers = await echoed(sent);
    let [taken, refused] = [0, 0];
    for (const data of sent) {
      const { frames, reason } = ours(data);
      for (const { envelope, arrays } of frames) {
        const theirs = answers.next().value!;
        expect(canonicalJson(JSON.parse(theirs.envelope.envelope as string))).toBe(canonicalJson(envelope));
        expect(theirs.arrays).toEqual(arrays);
        taken++;
      }
      const { envelope } = answers.next().value!;
      expect(envelope, `${reason}: ${data.toString("latin1")}`).toHaveProperty("refused");
      expect(envelope.refused === null, `${envelope.refused} / ${reason}: ${data.toString("latin1")}`).toBe(
        reason === null,
      );
      if (reason !== null) refused++;
    }
    expect(taken).toBeGreaterThan(100);
    expect(refused).toBeGreaterThan(1000);
  });
});

function ours(data: Buffer): { frames: Frame[]; reason: string | null } {
  const frames: Frame[] = [];
  try {
    for (const frame of new FrameReader(maxFirstFrameBytes).push(data)) frames.push(frame);
  } catch (error) {
    return { frames, reason: messageOf(error) };
  }
  return { frames, reason: null };
}

/** What the worker's reader makes of each, written by its writer and read by our reader. */
async function echoed(sent: readonly Buffer[]): Promise<Iterator<Frame, undefined>> {
  const child = spawn(python!, ["tests/echo_frames.py"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(Buffer.concat(sent.flatMap((data) => [u64(data.length), data])));
  const reader = new FrameReader();
  const frames: Frame[] = [];
  for await (const chunk of child.stdout) frames.push(...reader.push(chunk as Buffer));
  expect(reader.between).toBe(true);
  return frames.values();
}
