import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { RewardFunction } from "../index.ts";
import { loadProject } from "./load-project.ts";

it("lets a configuration import every door, and gives it this copy of the library", async () => {
  const dir = await temporaryFolder();
  writeFileSync(
    join(dir, "stateset.config.ts"),
    `import { defineConfig, customerService } from "stateset-agents";
import { algorithmNames } from "stateset-agents/algorithms";
import { fromPythonConfig } from "stateset-agents/compat";
import { defaultSampling } from "stateset-agents/policy";
import { ExactMatchReward } from "stateset-agents/rewards";
import { fileTracker } from "stateset-agents/telemetry";
import { createStubPolicy } from "stateset-agents/testing";
import { tool } from "stateset-agents/tools";
export default defineConfig({
  environment: customerService(),
  reward: new ExactMatchReward(),
  name: [algorithmNames, fromPythonConfig, defaultSampling, fileTracker, createStubPolicy, tool].map((value) => typeof value).join(" "),
});
`,
  );
  const { config } = await loadProject(undefined, dir);
  expect(config.reward).toBeInstanceOf(RewardFunction);
  expect(config.name).toBe("object function object function function function");
});
