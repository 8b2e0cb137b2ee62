import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { RunStart } from "../../run/callbacks.ts";
import { settingsChanged } from "../../run/changed-settings.ts";
import { type RunConfig, readConfig } from "../../run/config.ts";
import { tableLearner, tableLearners } from "../../test-support/table-learners.ts";
import { changedFromDefaults } from "./changed-settings.ts";

const root = mkdtempSync(join(tmpdir(), "changed-"));
afterAll(() => rmSync(root, { recursive: true }));

describe("settings that differ from the defaults", () => {
  it.each(tableLearners)("are, of config.json, those that the run knew when it began (%s)", async (kind) => {
    const dir = join(root, kind);
    let start: RunStart | undefined;
    const stop = new AbortController();
    const callbacks = {
      onStart(event: RunStart) {
        start = event;
        stop.abort();
      },
    };
    await tableLearner(kind).run({ dir, callbacks, signal: stop.signal });
    const changed = changedFromDefaults(readConfig(dir));
    const hidden = ["algorithm", "loss", "tokenBudget", "maxTokens"];
    const known = settingsChanged(start!.settings, start!.defaults).filter(({ path }) => !hidden.includes(path));
    expect(changed.filter(({ path }) => !/earningRate$/.test(path))).toEqual(
      known.filter(({ path }) => !/earningRate$/.test(path)),
    );
    expect(changed.find(({ path }) => path === "learningRate")).toMatchObject({
      value: kind === "rl" ? 0.2 : 0.05,
      default: 3e-4,
    });
  });

  it("name what a later version or an algorithm of somebody's own has, without a default", async () => {
    const model = { name: "m", digest: "d", architecture: "llama", parameters: 7e9, lora: { rank: 8 } };
    const config = { version: 2, id: "a", learner: "rl", model, settings: { later: 1 } } as unknown as RunConfig;
    const changed = changedFromDefaults({ ...config, algorithm: { algorithm: "mine", strength: 2 } });
    expect(changed).toContainEqual({ path: "later", value: 1, default: undefined });
    expect(changed).toContainEqual({ path: "strength", value: 2, default: undefined });
    expect(changed).toContainEqual({ path: "learningRate", value: undefined, default: 5e-5 });
  });
});
