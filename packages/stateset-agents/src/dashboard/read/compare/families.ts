/** Runs that are one experiment with several seeds. */
import { differences } from "../../../run/differences.ts";
import type { JsonObject } from "../json-file.ts";

/** What a run is called, where it came from and its seed are no part of what it does. */
const notCompared = /^(?:id|version|forkedFrom\..*|model\.name|settings\.seed|settings\.restarts)$/;

function differBy(a: JsonObject, b: JsonObject): string[] {
  return differences(a, b)
    .map(({ path }) => path)
    .filter((path) => !notCompared.test(path));
}

export interface Family<T> {
  name: string;
  members: T[];
}

/** In the order of their first members. A run whose configuration cannot be read is a family of its own. */
export function familiesOf<T extends { id: string; config: JsonObject | undefined }>(runs: readonly T[]): Family<T>[] {
  const families: Family<T>[] = [];
  for (const run of runs) {
    const like = families.find(({ members }) => {
      const other = members[0]!.config;
      return run.config && other && differBy(other, run.config).length === 0;
    });
    if (like) like.members.push(run);
    else families.push({ name: run.id, members: [run] });
  }
  for (const family of families) {
    const { members } = family;
    if (members.length > 1) family.name = `${commonName(members.map(({ id }) => id))} (${members.length} seeds)`;
  }
  return families;
}

/** What their names begin with, less a dangling "seed" or dash. */
function commonName(ids: readonly string[]): string {
  let common = ids[0]!;
  for (const id of ids) while (!id.startsWith(common)) common = common.slice(0, -1);
  const plain = common.replace(/[-_. ]*(?:seed)?[-_. ]*$/i, "");
  return plain === "" ? ids[0]! : plain;
}
