/** Tasks with a state, of nothing but a YAML file. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cli } from "../../test/cli.ts";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { booking } from "../environment/domain/booking/booking.ts";
import { retail } from "../environment/domain/retail/retail.ts";
import type { Environment } from "../environment/environment.ts";
import type { StatesetError } from "../error.ts";
import { buildScene } from "./build-project.ts";
import { loadProject } from "./load-project.ts";

function project(yaml: string) {
  const dir = temporaryFolder();
  const file = join(dir, "stateset.config.yaml");
  writeFileSync(file, yaml);
  return { dir, scene: async () => buildScene(await loadProject(file, "/")) };
}
const idsOf = (one: unknown) => (one as Environment).scenarios.map(({ id }) => id);

describe("a domain in a configuration", () => {
  it("is the one of the library, with its options, and its held-out tasks beside it", async () => {
    const { scene } = project("environment: { domain: retail, level: 2, tasks: 8, seed: 3, max_turns: 5 }\n");
    const { environment, heldOut } = await scene();
    const options = { level: 2, tasks: 8, seed: 3, maxTurns: 5 } as const;
    expect(environment.describe()).toEqual(retail(options).describe());
    expect((heldOut as Environment).describe()).toEqual(retail({ ...options, heldOut: true }).describe());
  });

  it("may be the held-out side itself, which then has none beside it", async () => {
    const { environment, heldOut } = await project("environment: { domain: booking, held_out: true }\n").scene();
    expect(idsOf(environment)).toEqual(idsOf(booking({ heldOut: true })));
    expect(heldOut).toBeUndefined();
  });

  it.each([
    ["a name that is none", "environment: { domain: retial }", 'Unknown domain "retial"', 'Did you mean "retail"?'],
    ["no name", "environment: { domain: null }", 'Unknown domain "null"', "Valid: retail, booking."],
    ["an option that is none", "environment: { domain: retail, levle: 2 }", 'Unknown option "levle"', '"level"'],
    ["a level that is none", "environment: { domain: retail, level: 4 }", "1, 2 or 3 was expected", ""],
    ["a key of another form", "environment: { domain: retail, check: exactMatch }", 'Unknown option "check"', ""],
    ["a file of held-out tasks", "environment: { domain: retail }\nheldOut: x.jsonl", "cannot be read from a file", ""],
  ])("is refused with %s", async (_, yaml, message, hint) => {
    const { message: said, hint: told = "" } = await project(`${yaml}\n`)
      .scene()
      .then(
        () => expect.unreachable(),
        (error: StatesetError) => error,
      );
    expect(said).toContain(message);
    expect(told).toContain(hint);
  });

  it("is trained on by the command line, with nothing else", async () => {
    const { dir } = project(`environment: { domain: retail, tasks: 4 }
agent: { threads: 1, sampling: { maxTokens: 48 } }
training: { steps: 1, groupsPerStep: 1, groupSize: 2, seed: 1, evaluation: { every: 0 } }
`);
    const { json, status, stderr } = await cli(["train", "--json", "--name", "shop"], { cwd: dir });
    expect([status, stderr]).toEqual([0, expect.any(String)]);
    expect(json.at(-1)).toMatchObject({ steps: 1 });
    const folder = join(dir, "runs/shop/trajectories");
    const [file] = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    const [first] = readFileSync(join(folder, file!), "utf8").split("\n");
    expect(JSON.parse(first!)).toMatchObject({
      metadata: { stateHash: expect.any(String) as string, writes: expect.any(Array) as [] },
    });
  });
});
