/**
 * The page in a real browser, on real runs. One file, so that the runs are made and the browser is started once; what is tried of each view
 * stands in page/.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../stateset-agents/test/temporary-folder.ts";
import { access } from "./page/access.ts";
import { compare } from "./page/compare.ts";
import { evaluation } from "./page/evaluation.ts";
import { frame } from "./page/frame.ts";
import { group } from "./page/group.ts";
import { hostile } from "./page/hostile.ts";
import { live } from "./page/live.ts";
import { run } from "./page/run.ts";
import { runs } from "./page/runs.ts";
import { steps } from "./page/steps.ts";
import { tokens } from "./page/tokens.ts";
import { trainer } from "./page/trainer.ts";
import { trajectory } from "./page/trajectory.ts";
import { chromiumPath } from "./support/chromium.ts";
import { makeRuns } from "./support/make-runs.ts";
import { openSite, type Site } from "./support/site.ts";

/** What the tests of a view are given: the site, once it is there. */
export interface Stage {
  site: Site;
  /** The folder of the runs, `<runs>/<name>`. */
  runs: string;
}

describe.skipIf(!chromiumPath)("the page", () => {
  const stage = {} as Stage;
  beforeAll(async () => {
    const folder = temporaryFolder();
    await makeRuns(folder);
    stage.runs = `${folder}/runs`;
    stage.site = await openSite({ folders: [stage.runs], cacheDir: `${folder}/cache` });
  }, 300_000);
  afterAll(() => stage.site?.close());

  describe("tokens", () => tokens(stage));
  describe("runs", () => runs(stage));
  describe("run", () => run(stage));
  describe("steps", () => steps(stage));
  describe("group", () => group(stage));
  describe("trajectory", () => trajectory(stage));
  describe("hostile", () => hostile(stage));
  describe("frame", () => frame(stage));
  describe("access", () => access(stage));
  describe("trainer", () => trainer(stage));
  describe("evaluation", () => evaluation(stage));
  describe("compare", () => compare(stage));
  describe("live", () => live(stage));

  it("did in none of these what a page should never do", () => expect(stage.site.faults).toEqual([]));
});
