import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cli } from "../../test/cli.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";

const script = '{ "id": "long", "userResponses": ["one", "two", "three", "four"] }\n';

/** A project whose reward is the number of replies. */
async function project(environment: string, heldOut = ""): Promise<string> {
  const dir = await temporaryFolder();
  writeFileSync(join(dir, "held-out.jsonl"), script);
  writeFileSync(
    join(dir, "stateset.config.ts"),
    `import { defineConfig, ConversationEnvironment, rewardFunction, TaskEnvironment } from "stateset-agents";
export default defineConfig({
  agent: { stub: { replies: ["Goodbye now."] } },
  environment: ${environment},
  ${heldOut}
  reward: rewardFunction({ name: "replies" }, ({ turns }) => turns.filter(({ role }) => role === "assistant").length),
  training: { steps: 1, groupsPerStep: 1, groupSize: 2 },
});
`,
  );
  return dir;
}

const file = 'heldOut: "held-out.jsonl",';
const scenarios = 'scenarios: [{ id: "a", userResponses: ["a", "b", "c"] }]';

describe("held-out scenarios are played by the rules of training", () => {
  it.each([
    ["a preset with its own", '{ preset: "sales", maxTurns: 1 }', ""],
    ["a preset that ends early", '{ preset: "sales", endWhen: ["goodbye"] }', ""],
    ["a preset with a file", '{ preset: "sales", maxTurns: 1 }', file],
    ["scenarios with a file", `{ ${scenarios}, maxTurns: 1 }`, file],
    ["an environment with a file", `new ConversationEnvironment({ ${scenarios}, endWhen: [/goodbye/i] })`, file],
  ])("%s", async (_, environment, heldOut) => {
    const cwd = await project(environment, heldOut);
    const run = async (args: string) => (await cli(args.split(" "), { cwd })).json.at(-1)!;
    expect((await run("train --json --name held")).heldOut.before).toMatchObject({
      mean: 1,
      count: expect.any(Number) as number,
    });
    expect((await run("evaluate --json --samples 1 --scenarios")).reward).toMatchObject({ mean: 1 });
    const long = await run("evaluate --json --samples 1 --scenarios held-out.jsonl");
    expect(long).toMatchObject({ reward: { mean: 1 }, scenarios: [{ id: "long" }] });
  });

  it("and scripts are refused where only tasks can be played", async () => {
    const task = 'new TaskEnvironment({ tasks: [{ id: "sum", goal: "2 + 2?" }], check: () => true })';
    const cwd = await project(task);
    const { status, stderr } = await cli(["evaluate", "--scenarios", "held-out.jsonl"], { cwd });
    expect(stderr).toContain('Scenario "long" is no task');
    expect(status).toBeGreaterThan(0);
  });
});
