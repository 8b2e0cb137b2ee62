/**
 * The page in a real browser, on real runs. One file, so that the runs are made and the browser is started once; what is tried of each view
 * stands in page/.
 */
import { afterAll, beforeAll, describe } from "vitest";
import { temporaryFolder } from "../../stateset-agents/test/temporary-folder.ts";
import { compare } from "./page/compare.ts";
import { evaluation } from "./page/evaluation.ts";
import { live } from "./page/live.ts";
import { tokens } from "./page/tokens.ts";
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
  describe("evaluation", () => evaluation(stage));
  describe("compare", () => compare(stage));
  describe("live", () => live(stage));
});
