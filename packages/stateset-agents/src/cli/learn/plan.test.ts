/** What the commands that learn from data refuse before they begin, and what they say they will do. */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { type CliResult, chatModel, cli } from "../../../test/cli.ts";
import { learnFolder } from "../../../test/learn-data.ts";

let model = "";
let cwd = "";
beforeAll(async () => {
  model = await chatModel();
  cwd = await learnFolder(model);
});
const inProject = (args: string, where: { cwd: string }): Promise<CliResult> => cli(args.split(" "), where);
const run = (args: string): Promise<CliResult> => inProject(args, { cwd });

it("dpo --loss kto learns from completions with a label, and from pairs as two of them", async () => {
  const labelled = ["red", "blue", "big"].map((word, i) => ({
    prompt: `say ${word}`,
    completion: `the ${word} one`,
    label: i !== 1,
  }));
  const pair = { prompt: "say old", chosen: "the old one", rejected: "no no" };
  const lines = [...labelled, pair].map((line) => JSON.stringify(line)).join("\n");
  writeFileSync(join(cwd, "completions.jsonl"), `{"nothing": 1}\n${lines}\n`);
  const args = "dpo --json --loss kto --data completions.jsonl --held-out completions.jsonl --skip-bad --batch-size 2";
  const plan = (await run(`${args} --dry-run`)).json.at(-1)!;
  expect(plan).toMatchObject({ type: "plan", examples: 5, steps: 3, settings: { loss: "kto", desirableWeight: 1 } });
  expect((await run(`${args} --name kto --set desirableWeight=2`)).json.at(-1)).toMatchObject({
    steps: 3,
    heldOut: { before: { completions: 5 } },
  });
  expect((await run("dpo --json --resume kto --epochs 2")).json.at(-1)).toMatchObject({ steps: 6 });
});

it.each(["dpo", "kto", "orpo"])("plans dpo --loss %s as it then runs", async (loss) => {
  const args = `dpo --json --data pairs.jsonl --batch-size 4 --loss ${loss}`;
  const plan = (await run(`${args} --dry-run`)).json.at(-1)!;
  expect(plan.steps).toBe((await run(`${args} --name planned-${loss}`)).json.at(-1)!.steps);
  expect(plan.memory.reference > 0).toBe(loss !== "orpo");
});

it("plans nothing that is then refused, and samples nothing before it is", async () => {
  const refusals: [string, string][] = [
    ["dpo --data pairs.jsonl --loss robust", "needs labelSmoothing"],
    ["dpo --data pairs.jsonl --loss orpo --set reference=base", 'not an option of the loss "orpo"'],
    ["best-of-n --set bogus=1", 'Unknown option "bogus"'],
    ["best-of-n --set schedule=square", "schedule"],
    ["sft --data chats.jsonl --set dir=elsewhere", 'Unknown option "dir"'],
    ["best-of-n --n 2 --keep 2", "keeps 2 of 2"],
  ];
  for (const [args, words] of refusals) {
    for (const dry of ["", " --dry-run"]) {
      const { status, stdout, stderr } = await run(`${args}${dry} --name refused`);
      expect([status, stdout, stderr]).toEqual([2, "", expect.stringContaining(words)]);
      expect(existsSync(join(cwd, "runs/refused"))).toBe(false);
    }
  }
  const unfit = await run("best-of-n --json --dry-run --n 2 --set tokenBudget=1000000000000");
  expect([unfit.status, unfit.json.at(-1)!.code]).toEqual([6, "OUT_OF_MEMORY"]);
});

it.each(["train", "best-of-n"])("%s leaves nothing open when a setting is no group", async (command) => {
  const dir = await learnFolder(model);
  const log = join(dir, "log");
  writeFileSync(
    join(dir, "reward.ts"),
    `import { appendFileSync } from "node:fs";
import { rewardFunction } from "stateset-agents";
const say = (word: string) => appendFileSync(${JSON.stringify(log)}, word);
say("opened ");
export default Object.assign(rewardFunction({ name: "long" }, () => 1), { close: async () => say("closed ") });
`,
  );
  writeFileSync(log, "");
  const { status, stderr } = await inProject(`${command} --seed 3 --set seed.x=1`, { cwd: dir });
  expect([status, stderr]).toEqual([
    2,
    expect.stringMatching(/"seed" is a single value[^→]*→ Write --set seed=<value>\./),
  ]);
  const { length } = readFileSync(log, "utf8").split("opened");
  expect(readFileSync(log, "utf8").split("closed")).toHaveLength(length);
  // The same two words, where it is opened.
  await inProject(`${command} --dry-run`, { cwd: dir });
  expect(readFileSync(log, "utf8")).toMatch(/opened closed $/);
});

it("best-of-n leaves nothing behind that failed before it had sampled", async () => {
  const dir = await learnFolder(model);
  const source = readFileSync(join(dir, "reward.ts"), "utf8");
  const file = join(dir, "broken");
  const fails = `if (existsSync(${JSON.stringify(file)})) return turns[99]!.content.length;`;
  const broken = source.replace("return turns", `${fails}\n  return turns`);
  writeFileSync(join(dir, "reward.ts"), broken);
  writeFileSync(file, "");
  const args = "best-of-n --json --n 3 --name r";
  expect((await inProject(args, { cwd: dir })).json.at(-1)).toMatchObject({ type: "error", code: "REWARD_FAILED" });
  expect(existsSync(join(dir, "runs/r"))).toBe(false);
  rmSync(file);
  expect((await inProject(args, { cwd: dir })).json.at(-1)).toMatchObject({ status: "finished" });
});

it("goes on with no run that is not there", async () => {
  const { status, stderr } = await run("sft --data chats.jsonl --resume mistyped");
  expect([status, stderr]).toEqual([5, expect.stringContaining("There is no run at")]);
  expect(existsSync(join(cwd, "mistyped"))).toBe(false);
});
