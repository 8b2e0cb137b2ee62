/** What plain configurations reach: verifiers, judges, reward models, tasks, files of code. All paths are those beside the file. */
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { chatModel, cli } from "../../test/cli.ts";
import { learnFolder } from "../../test/learn-data.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";
import type { SkippedLines } from "../conversation/read-entries.ts";
import type { Turn } from "../conversation/trajectory.ts";
import type { Environment } from "../environment/environment.ts";
import { buildScene, closeScene } from "./build-project.ts";
import type { ProjectConfig } from "./define-config.ts";
import { loadProject } from "./load-project.ts";

/** A folder with a configuration and other files, read from another working folder. */
async function project(yaml: string, files: Record<string, string> = {}) {
  const dir = await temporaryFolder();
  for (const [name, text] of Object.entries({ "stateset.config.yaml": yaml, ...files })) {
    mkdirSync(join(dir, name, ".."), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const file = join(dir, "stateset.config.yaml");
  return { dir, file, scene: async () => buildScene(await loadProject(file, "/")) };
}

const preset = "environment: { preset: sales }\n";
const said = (...replies: string[]): Turn[] =>
  replies.flatMap((content) => [
    { role: "user", content: "?" },
    { role: "assistant", content },
  ]);
const scenario = { id: "sum", expected: "42" };

describe("reward", () => {
  it("names rewards for acting", async () => {
    const { scene } = await project(`${preset}reward:\n  state: 3\n  tool_use: { needed: [refund], max_calls: 2 }\n`);
    const { reward } = await scene();
    const called: Turn = {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "1", type: "function", function: { name: "refund", arguments: "{}" } }],
    };
    const turns: Turn[] = [called, { role: "tool", tool_call_id: "1", content: "ok" }, ...said("Refunded.")];
    const { score, breakdown } = await reward!.compute({ turns, scenario, metadata: { success: false } });
    expect(breakdown).toMatchObject({ state: 0, toolUse: 1 });
    expect(score).toBe(0.25);
  });

  it("names verifiers with their options, several of a kind, and built-ins by their weight", async () => {
    const { scene } = await project(`${preset}reward:
  numeric_answer: { weight: 3, tolerance: 0.5 }
  exactMatch: 1
  pattern:
    - { pattern: "^THE", flags: i, name: begins, weight: 1 }
    - { pattern: "end$", name: ends, replies: any, weight: 1 }
  tool_call: { tool: refund, arguments: { order_id: 7 }, weight: 2 }
`);
    const { reward } = await scene();
    const { score, breakdown } = await reward!.compute({ turns: said("no end", "the 42.4"), scenario });
    expect(breakdown).toEqual({ numericAnswer: 1, exactMatch: 0, begins: 1, ends: 1, toolCall: 0 });
    expect(score).toBeCloseTo((3 + 1 + 1) / 8, 12);
    const calls: Turn[] = said('<tool_call>{"name": "refund", "arguments": {"order_id": 7}}</tool_call>');
    expect((await reward!.compute({ turns: calls, scenario })).breakdown.toolCall).toBe(1);
  });

  it("is a file of code, a reward or a function, whole or as a part with its weight", async () => {
    const files = {
      "rewards/short.ts":
        'import { rewardFunction } from "stateset-agents";\nexport default rewardFunction({ name: "short" }, ({ turns }: { turns: readonly unknown[] }) => 1 / turns.length);',
      "rewards/half.js": "export default () => 0.5;",
    };
    const alone = await (await project(`${preset}reward: ./rewards/short.ts\n`, files)).scene();
    expect(alone.reward!.name).toBe("short");
    expect((await alone.reward!.compute({ turns: said("a") })).score).toBe(0.5);
    const parts = `${preset}reward: { ./rewards/short.ts: 3, ./rewards/half.js: 1, conciseness: 0 }\n`;
    const { score, breakdown } = await (await (await project(parts, files)).scene()).reward!.compute({
      turns: said("a", "b"),
    });
    expect(breakdown).toMatchObject({ short: 0.25, half: 0.5 });
    expect(score).toBeCloseTo((3 * 0.25 + 0.5) / 4, 12);
    const wrong = await project(`${preset}reward: ./rewards/none.ts\n`, { "rewards/none.ts": "export default 3;" });
    await expect(wrong.scene()).rejects.toThrow("none.ts exports no reward");
    const missing = await project(`${preset}reward: ./nowhere.ts\n`);
    await expect(missing.scene()).rejects.toThrow(/There is no file .*nowhere\.ts.* relative to its own folder/);
  });

  it("refuses names and options it does not know, with the nearest", async () => {
    const refused = async (reward: string) => (await project(`${preset}reward: ${reward}\n`)).scene();
    await expect(refused("{ politness: 1 }")).rejects.toThrow('Unknown reward "politness"');
    await expect(refused("{ politness: 1 }")).rejects.toThrow('Did you mean "politeness"?');
    await expect(refused("{ numericAnswer: { tolerence: 1 } }")).rejects.toThrow('Did you mean "tolerance"?');
    await expect(refused("{ pattern: 1 }")).rejects.toThrow('The reward "pattern" in');
    await expect(refused('{ pattern: { pattern: "(" } }')).rejects.toThrow("no regular expression");
    await expect(refused("{ politeness: much }")).rejects.toThrow("is not a number");
    await expect(refused("{ rewardModel: { weight: 1 } }")).rejects.toThrow("has no path");
  });

  it("is what reward-model trained, by the path of its run", async () => {
    const cwd = await learnFolder(await chatModel());
    await cli("reward-model --json --data pairs.jsonl --name taste".split(" "), { cwd });
    const text = readFileSync(join(cwd, "stateset.config.yaml"), "utf8");
    const named = { rewardModel: { path: "runs/taste", output: "probability", name: "taste" }, conciseness: 0 };
    writeFileSync(join(cwd, "by-model.yaml"), text.replace("./reward.ts", JSON.stringify(named)));
    const args = ["evaluate", "--json", "--scenarios", "--samples", "1", "--config", join(cwd, "by-model.yaml")];
    const { json } = await cli(args, { cwd: await temporaryFolder() });
    expect(json[0]!.parts.taste.mean).toBeGreaterThan(0);
    expect(json[0]!.parts.taste.mean).toBeLessThan(1);
  });
});

describe("a judge", () => {
  const closers: (() => void)[] = [];
  afterEach(() => {
    for (const close of closers.splice(0)) close();
    delete process.env.JUDGE_KEY_OF_TEST;
  });

  /** Answers 7 of 1 to 10, and keeps what it was sent. */
  async function endpoint() {
    const asked: { authorization: string | undefined; body: string }[] = [];
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => {
        body += chunk;
      });
      request.on("end", () => {
        asked.push({ authorization: request.headers.authorization, body });
        response.end(JSON.stringify({ choices: [{ message: { content: '{"reason": "fine", "score": 7}' } }] }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => server.close());
    return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
  }

  it("is asked at its endpoint, with the key of an environment variable", async () => {
    const { asked, url } = await endpoint();
    process.env.JUDGE_KEY_OF_TEST = "sk-from-the-environment";
    const yaml = `${preset}reward:
  judge: { model: judge-7b, base_url: ${JSON.stringify(url)}, api_key_env: JUDGE_KEY_OF_TEST, rubric: Is it kind?, mode: absolute, max_tokens: 99, retry: { base_ms: 1 }, cache: { file: answers.jsonl } }
`;
    const { scene, dir } = await project(yaml);
    const { reward } = await scene();
    const { breakdown } = await reward!.compute({ turns: said("Hello!") });
    expect(breakdown.judge).toBeCloseTo(6 / 9, 12);
    expect(asked[0]!.authorization).toBe("Bearer sk-from-the-environment");
    expect(JSON.parse(asked[0]!.body)).toMatchObject({ model: "judge-7b", max_tokens: 99 });
    expect(asked[0]!.body).toContain("Is it kind?");
    // The answers are kept beside the configuration, not in the working folder.
    expect(readFileSync(join(dir, "answers.jsonl"), "utf8")).toContain("fine");
  });

  it("is refused with a key in the file, without the variable, and with options nobody reads", async () => {
    const judge = async (options: string) =>
      (
        await project(
          `${preset}reward: { judge: { model: m, base_url: "http://localhost:1", rubric: x, ${options} } }\n`,
        )
      ).scene();
    await expect(judge("api_key: sk-1")).rejects.toThrow(/is given a secret.*apiKeyEnv/);
    await expect(judge("api_key: sk-secret")).rejects.not.toThrow("sk-secret");
    await expect(judge("api_key_env: NOT_SET_ANYWHERE")).rejects.toThrow(
      /NOT_SET_ANYWHERE.* is not set\. Set it to the endpoint's key: export NOT_SET_ANYWHERE=/,
    );
    await expect(judge("rubrick: y")).rejects.toThrow('Did you mean "rubric"?');
  });
});

describe("environment", () => {
  it("is a file of code", async () => {
    const files = {
      "world.ts":
        'import { ConversationEnvironment } from "stateset-agents";\nexport default new ConversationEnvironment({ scenarios: [{ id: "own", userResponses: ["hi"] }] });',
      "no-world.js": "export default {};",
    };
    const { environment } = await (await project("environment: ./world.ts\n", files)).scene();
    expect(environment.scenarios.map(({ id }) => id)).toEqual(["own"]);
    await expect((await project("environment: no-world.js\n", files)).scene()).rejects.toThrow(
      "exports no environment",
    );
  });

  it("is tasks of a file, checked by a verifier, with held-out ones of another", async () => {
    const { scene } = await project(
      "environment: { tasks: tasks.jsonl, check: { numeric_answer: { tolerance: 0.5 } }, max_turns: 2 }\nheld_out: others.yaml\n",
      {
        "tasks.jsonl": '{"id": "six", "goal": "6 × 7?", "expected": "42"}\n',
        "others.yaml": "tasks:\n  - { id: seven, goal: 7 × 7?, expected: '49' }\n",
      },
    );
    const { environment, heldOut } = await scene();
    const play = async (world: typeof environment, content: string) => {
      const state = await world.reset(world.scenarios[0]);
      return world.step(state, { role: "assistant", content });
    };
    expect(await play(environment, "It is 42.3")).toMatchObject({ reward: 1, done: true });
    expect(await play(environment, "It is 41")).toMatchObject({ reward: 0, done: false });
    expect(await play(heldOut as typeof environment, "49")).toMatchObject({ reward: 1, done: true });
    expect(environment.describe().check).toMatchObject({ parts: [{ name: "numericAnswer", tolerance: 0.5 }] });
  });

  it("is tasks checked by a word for a verifier, or by a file", async () => {
    const tasks = 'tasks: [{ id: a, goal: "Say yes.", expected: "yes" }]';
    const solved = async (check: string, files = {}) => {
      const { environment } = await (await project(`environment: { ${tasks}, ${check} }\n`, files)).scene();
      const state = await environment.reset(environment.scenarios[0]);
      return (await environment.step(state, { role: "assistant", content: "Yes!" })).done;
    };
    expect(await solved("check: exactMatch")).toBe(true);
    expect(
      await solved("check: ./check.ts", {
        "check.ts": "export default (reply: { content: string }) => reply.content.length > 9;",
      }),
    ).toBe(false);
    await expect(solved("max_turns: 3")).rejects.toThrow("have no check");
    await expect(solved("check: ./check.js", { "check.js": "export default 1;" })).rejects.toThrow(
      "exports no function",
    );
  });

  it("must be there for commands that play, and need not for others", async () => {
    const { scene } = await project("training: { steps: 1 }\n");
    await expect(scene()).rejects.toThrow("names no environment");
  });
});

it("is typed where it is code: names, options and files, and no others", () => {
  const config = {
    environment: {
      tasks: [{ id: "sum", goal: "2 + 2?", expected: "4" }],
      check: { numericAnswer: { tolerance: 0.1 } },
    },
    reward: { politeness: 0.5, pattern: [{ pattern: /a/ }, { pattern: "b", flags: "i" }], "./own.ts": 0.5 },
    sft: { data: "chats.jsonl", epochs: 2, minReward: 0.5 },
    dpo: { data: "pairs.jsonl", beta: 0.2 },
    rewardModel: { data: "labels.jsonl", maxTokens: 64 },
    bestOfN: { n: 4, keep: 2, learningRate: 1e-4 },
  } satisfies ProjectConfig;
  // @ts-expect-error: a reward that there is not
  const reward: ProjectConfig = { ...config, reward: { politness: 1 } };
  // @ts-expect-error: an option that the reward does not have
  const option: ProjectConfig = { ...config, reward: { numericAnswer: { tolerence: 1 } } };
  // @ts-expect-error: a setting that the learner does not have
  const section: ProjectConfig = { ...config, sft: { data: "chats.jsonl", epoch: 1 } };
  expect([reward, option, section]).toHaveLength(3);
});

describe("what a scene holds", () => {
  const counts = globalThis as unknown as { built: string[]; closed: string[] };
  const files = {
    "judge.js": `import { RewardFunction } from "stateset-agents";
class Judge extends RewardFunction {
  constructor() { super({ name: "judge" }); globalThis.built.push("judge"); }
  async compute() { return { score: 1, breakdown: {} }; }
  async close() { globalThis.closed.push("judge"); }
}
export default new Judge();
`,
    "tasks.jsonl": '{"id": "a", "goal": "?"}\n',
    "others.jsonl": '{"id": "b", "goal": "?"}\n{"id": "c", "goal": 7}\n',
    "world.js": `import { TaskEnvironment } from "stateset-agents";
class World extends TaskEnvironment {
  async close() { globalThis.closed.push("world"); }
}
export default new World({ tasks: [{ id: "w", goal: "?" }], check: () => true });
`,
  };
  const tasks = "environment: { tasks: tasks.jsonl, check: { ./judge.js: 1 } }\n";
  beforeEach(() => {
    counts.built = [];
    counts.closed = [];
  });

  it("is built once, a check for held-out tasks too, and closed once", async () => {
    const { file } = await project(`${tasks}held_out: others.jsonl\n`, files);
    const skipped: string[] = [];
    const reading = { skipBad: true, onSkipped: ({ problems }: SkippedLines) => skipped.push(...problems) };
    const scene = await buildScene(await loadProject(file, "/"), reading);
    expect(skipped).toEqual([expect.stringContaining("others.jsonl, line 2: task 2.goal")]);
    const heldOut = scene.heldOut as Environment;
    expect(heldOut.scenarios).toEqual([{ id: "b", goal: "?" }]);
    const asked = await heldOut.reset(heldOut.scenarios[0]!);
    expect(await heldOut.step(asked, { role: "assistant", content: "!" })).toMatchObject({ reward: 1, done: true });
    expect(heldOut.describe().check).toEqual(scene.environment.describe().check);
    expect(counts).toMatchObject({ built: ["judge"], closed: [] });
    await closeScene(scene);
    expect(counts.closed).toEqual(["judge"]);
  });

  it("is closed where the rest of it cannot be built, and held-out environments with the others", async () => {
    const broken = await project(`${tasks}held_out: ./world.js\nreward: { politness: 1 }\n`, files);
    await expect(broken.scene()).rejects.toThrow("politness");
    expect(counts.closed.sort()).toEqual(["judge", "world"]);
  });

  it("is closed by evaluate, also what it did not play in", async () => {
    const { dir, file } = await project(`${tasks}agent: { stub: {} }\nheld_out: ./world.js\n`, files);
    const { json } = await cli(["evaluate", "--json", "--samples", "1", "--scenarios", "--config", file], { cwd: dir });
    expect(json[0]!.scenarios).toMatchObject([{ id: "w" }]);
    expect(counts.closed.sort()).toEqual(["judge", "world"]);
  });
});

describe("paths of a configuration", () => {
  it.each([
    ["cpu", "agent.torch:"],
    ["{ python: 3 }", "agent.torch.python"],
  ])("are looked for in options alone, and what is none is refused by name: torch: %s", async (torch, named) => {
    const { dir, file } = await project(
      `${preset}agent: { engine: torch, torch: ${torch} }\nreward: { politeness: 1 }\n`,
    );
    const { json } = await cli(["train", "--json", "--dry-run", "--config", file], { cwd: dir });
    expect(json.at(-1)).toMatchObject({ code: "INVALID_OPTION", message: expect.stringContaining(named) as string });
  });

  it("are beside it, whatever the working folder is; those of flags are not", async () => {
    const model = await chatModel();
    const dir = await learnFolder(model, join(await temporaryFolder(), "project"));
    cpSync(model, join(dir, "models/tiny"), { recursive: true });
    writeFileSync(join(dir, "scenes.jsonl"), '{"id": "own", "userResponses": ["say red"]}\n');
    writeFileSync(join(dir, "held.jsonl"), '{"id": "held", "userResponses": ["say old"]}\n');
    writeFileSync(
      join(dir, "stateset.config.yaml"),
      `agent: { model: models/tiny, sampling: { maxTokens: 4 }, threads: 1 }
environment: { scenarios: scenes.jsonl }
held_out: held.jsonl
reward: { ./reward.ts: 1 }
save_path: out/agent
training: { steps: 1, groups_per_step: 1, group_size: 2 }
sft: { data: chats.jsonl, held_out: other-chats.jsonl }
`,
    );
    const cwd = await temporaryFolder();
    const run = async (args: string) => (await cli(args.split(" "), { cwd })).json;
    const config = join(dir, "stateset.config.yaml");
    const trained = await run(`train --json --config ${config} --name r`);
    expect(trained.at(-1)).toMatchObject({
      status: "finished",
      dir: join(cwd, "runs/r"),
      final: join(cwd, "runs/r/final"),
    });
    expect(existsSync(join(dir, "out/agent/agent.json"))).toBe(true);
    expect(existsSync(join(cwd, "out"))).toBe(false);
    const saved = JSON.parse(readFileSync(join(cwd, "runs/r/config.json"), "utf8"));
    expect(saved.model.name).toBe(join(dir, "models/tiny"));
    expect((await run(`sft --json --config ${config} --name s`)).at(-1)).toMatchObject({ status: "finished" });
    await run(`train --json --config ${config} --name t --save mine`);
    expect(existsSync(join(cwd, "mine/agent.json"))).toBe(true);
    const flag = await run(`sft --json --config ${config} --data chats.jsonl`);
    expect(flag.at(-1)).toMatchObject({
      type: "error",
      message: expect.stringContaining(join(cwd, "chats.jsonl")) as string,
    });
  });
});
