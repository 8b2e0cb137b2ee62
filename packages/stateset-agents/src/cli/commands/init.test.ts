import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";

const { run, flag, complete } = flagTests("init");

describe("init", () => {
  let place: string;
  beforeAll(async () => {
    place = await temporaryFolder();
  });
  const init = (args: string) => run(`init ${args}`, { cwd: place });
  const read = (path: string) => readFileSync(join(place, path), "utf8");

  // Node's own recursive mkdir would try for ever: a file system without room for folders.
  it.runIf(process.platform === "linux")("says at once where it cannot write", async () => {
    const { status, stderr } = await init("/proc/no-such-place --yes");
    expect(status).not.toBe(0);
    expect(stderr).toContain("Could not write /proc/no-such-place");
  });
  flag("init --template", async () => {
    for (const template of ["support", "tech-support", "sales", "tools", "custom"]) {
      expect((await init(`${template} --yes --template ${template}`)).status).toBe(0);
      // Each is a project that loads, plans and plays at once, here with scripted replies.
      const play = () =>
        run("train --stub --json --steps 1 --set groupsPerStep=1 --set groupSize=2", { cwd: join(place, template) });
      const played = await play();
      expect(played.stderr).toBe("");
      expect(played.json.at(-1)).toMatchObject({ type: "result", stub: true, heldOut: { before: {} } });
      // Half of the held-out scenarios are reported on, and they are enough for an interval.
      expect(played.json.at(-1)!.heldOut.before.count).toBeGreaterThanOrEqual(15);
      expect(played.json.filter(({ kind }) => kind === "held-out")).toEqual([]);
      // And again: the first run is not in the way of a second.
      expect((await play()).status).toBe(0);
    }
  });
  flag("init --model", async () => {
    await init("big --yes --model Qwen/Qwen3-0.6B");
    expect(read("big/stateset.config.ts")).toContain('model: "Qwen/Qwen3-0.6B", lora: true');
  });
  flag("init --path", async () => {
    await init("--yes --path somewhere");
    expect(JSON.parse(read("somewhere/package.json"))).toMatchObject({ name: "somewhere", type: "module" });
    expect((await init("--path config.yaml")).stdout).toContain("train --config config.yaml");
    const played = await run("train --stub --json --config config.yaml --steps 1 --groups-per-step 1 --group-size 2", {
      cwd: place,
    });
    expect(played.json.at(-1)).toMatchObject({ type: "result" });
  });
  flag("init --yes", async () => {
    expect((await init("--yes")).stdout).toContain("+ my-agent/stateset.config.ts");
  });
  flag("init --force", async () => {
    expect((await init("--yes")).stderr).toContain("is not empty");
    expect((await init("--yes --force")).status).toBe(0);
  });
  flag("init --json", async () => {
    expect((await init("listed --json")).json[0]).toMatchObject({
      next: ["cd listed", "npm install", "npm run train"],
    });
  });
});

complete();
