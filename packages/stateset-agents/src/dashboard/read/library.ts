/** What all answers are made of: the folders, and what is kept in mind of the runs in them. */
import { pathIn } from "../../run/layout.ts";
import { Indexes } from "./index/indexes.ts";
import { JsonFiles, type JsonObject } from "./json-file.ts";
import { placeOf, type RunPlace } from "./places.ts";
import type { ReaderOptions } from "./reader.ts";
import { TokenFiles } from "./tokens/token-files.ts";
import { Tokenizers } from "./tokens/tokenizers.ts";
import { StepFiles } from "./trajectories/step-files.ts";

export class Library {
  readonly folders: readonly string[];
  readonly indexes: Indexes;
  readonly json = new JsonFiles();
  readonly stepFiles = new StepFiles();
  readonly tokenFiles = new TokenFiles();
  readonly tokenizers = new Tokenizers();

  constructor({ folders, cacheDir }: ReaderOptions) {
    this.folders = folders;
    this.indexes = new Indexes(cacheDir);
  }

  place(key: string): RunPlace {
    return placeOf(this.folders, key);
  }

  /** config.json as it is. */
  config(dir: string): JsonObject | undefined {
    return this.json.read(pathIn(dir, "config")).value;
  }
}
