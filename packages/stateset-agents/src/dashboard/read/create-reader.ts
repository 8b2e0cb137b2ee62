/** The Reader, in this thread. open-reader.ts has it in one of its own. */
import { messageOf } from "../../error.ts";
import { HttpError } from "../../server/http-error.ts";
import { Changes } from "./changes.ts";
import { compareRuns } from "./compare/compare.ts";
import { compareSeries } from "./compare/compare-series.ts";
import { configOf } from "./config-answer.ts";
import { csvOf } from "./csv.ts";
import { evaluationsOf } from "./evaluations.ts";
import { groupOf } from "./group/group.ts";
import { Library } from "./library.ts";
import { listRuns } from "./list.ts";
import { liveOf } from "./live.ts";
import { noRun } from "./places.ts";
import type { Reader, ReaderOptions } from "./reader.ts";
import { runOf } from "./run-detail.ts";
import { seriesOf } from "./series.ts";
import { tokensOf } from "./tokens/packed-tokens.ts";
import { listTrajectories } from "./trajectories/list.ts";
import { trajectoryOf } from "./trajectories/one.ts";

export function createReader(options: ReaderOptions): Reader {
  const library = new Library(options);
  const changes = new Changes(library);
  /** A run that is removed while it is read is not there, whatever it was that could not be found. */
  const ofRun = async <T>(key: string, answer: (dir: string) => T | Promise<T>): Promise<T> => {
    const { dir } = library.place(key);
    try {
      return await answer(dir);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (error instanceof HttpError || !/^E[A-Z0-9]+$/.test(code ?? "")) throw error;
      if (code === "ENOENT") throw noRun(key);
      // Not ours to read, or no plain file: a fault of the folder's, and not of the server's.
      throw new HttpError(409, `A file of the run cannot be read: ${messageOf(error)}.`, {
        code: "unreadable",
        param: "run",
      });
    }
  };
  const tables = (dir: string) => library.indexes.of(dir).tables();
  return {
    runs: (query) => listRuns(library, query),
    run: (key) => ofRun(key, () => runOf(library, library.place(key))),
    config: (key) => ofRun(key, (dir) => configOf(library, dir)),
    events: (key) => ofRun(key, (dir) => library.indexes.of(dir).events()),
    evaluations: (key) => ofRun(key, (dir) => evaluationsOf(dir, library.indexes.of(dir))),
    series: (key, query) => ofRun(key, async (dir) => seriesOf(await tables(dir), query)),
    csv: (key, metrics) => ofRun(key, async (dir) => csvOf(dir, (await tables(dir)).metrics, metrics)),
    trajectories: (key, query) => ofRun(key, () => listTrajectories(library.stepFiles, library.place(key), query)),
    trajectory: async (key) => trajectoryOf(library, key),
    tokens: (key) => tokensOf(library, key),
    group: (key) => groupOf(library, key),
    live: (key) => ofRun(key, (dir) => liveOf(key, dir)),
    compare: (query) => compareRuns(library, query),
    compareSeries: (query) => compareSeries(library, query),
    dirOf: async (key) => library.place(key).dir,
    changes: () => changes.since(),
    close: async () => library.indexes.close(),
  };
}
