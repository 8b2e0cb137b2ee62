import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { openReader } from "./open-reader.ts";

const levels = 50_000;
const deep = `${"[".repeat(levels)}${"]".repeat(levels)}`;
const message = `{"role":"user","content":"?"}`;

it("names what is nested too deep, and shows the rest", { timeout: 30_000 }, async () => {
  const root = temporaryFolder();
  const dir = join(root, "runs", "deep");
  mkdirSync(join(dir, "trajectories"), { recursive: true });
  const files = {
    "config.json": `{"version":2,"id":"deep","settings":${deep}}`,
    "metrics.jsonl": `{"step":1,"reward":0.5,"x":${deep}}\n{"step":2,"reward":0.75}\n`,
    "events.jsonl": `{"seq":0,"step":0,"type":"odd","x":${deep}}\n{"seq":1,"step":0,"type":"start"}\n`,
    "live.jsonl": `{"seq":0,"step":1,"type":"conversation","id":"a","group":"g","messages":[${message}],"x":${deep}}\n{"seq":1,"step":1,"type":"conversation","id":"b","group":"g","messages":[null]}\n`,
    "trajectories/step-000001.jsonl": `{"id":"a","group":"g","step":1,"messages":[${message}],"chains":[],"x":${deep}}\n`,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  const reader = await openReader({ folders: [join(root, "runs")], cacheDir: join(root, "cache") });
  const { rows, problems } = await reader.runs({});
  expect(problems).toEqual([]);
  const named = { where: "config.json", message: "is nested too deep to be read" };
  expect(rows).toMatchObject([{ key: "deep", reward: 0.75, problems: expect.arrayContaining([named]) }]);
  await expect(reader.config("deep")).resolves.toBeDefined();
  await expect(reader.compare({ runs: "deep" })).resolves.toBeDefined();
  expect((await reader.events("deep")).events).toHaveLength(1);
  expect((await reader.live("deep")).conversations).toEqual([]);
  expect((await reader.trajectories("deep", {})).problems).toMatchObject([
    { where: "trajectories/step-000001.jsonl, line 1", message: "is nested too deep to be read" },
  ]);
  await reader.close();
});
