/**
 * What strangers give an agent that acts, one row a fault: each is an error by name, or a tool error that is counted and that the model
 * reads, and the conversation goes on. Played in a training step, as it would happen.
 */
import { describe, expect, it, vi } from "vitest";
import { MultiTurnAgent } from "../src/agent/multi-turn-agent.ts";
import type { Trajectory } from "../src/conversation/trajectory.ts";
import { ConversationEnvironment } from "../src/environment/conversation-environment.ts";
import type { Environment } from "../src/environment/environment.ts";
import { TaskEnvironment } from "../src/environment/task-environment.ts";
import type { User } from "../src/environment/user/user.ts";
import { rewardFunction } from "../src/reward/define-reward.ts";
import { scripted } from "../src/test-support/scripted-policy.ts";
import { createTablePolicy } from "../src/test-support/table-policy.ts";
import { callFormats } from "../src/tool/format/choose-format.ts";
import type { ToolsInput } from "../src/tool/read-tools.ts";
import { tool } from "../src/tool/tool.ts";
import { train } from "../src/training/train.ts";

const { print } = callFormats.json;
const call = (args: string, name = "act") => print([{ name, arguments: args }]);

/** A step in which both conversations make this call and then say "done". */
async function step(written: string, tools: ToolsInput | undefined, environment: Environment = talk()) {
  // A vocabulary of words that has just these, so that they come back as they were written.
  const words = [...new Set(`${written} done`.split(/\s+/).filter(Boolean))];
  const policy = createTablePolicy({ words, contextLength: 100_000 });
  const speaking = scripted(policy, ({ tokens }) => ({
    text: tokens.includes(policy.idOf("<tool>")) || tokens.filter((id) => id === 2).length > 1 ? "done" : written,
  }));
  const agent = new MultiTurnAgent({ policy: speaking, ...(tools && { tools }), callFormat: "json" });
  const trajectories: Trajectory[] = [];
  const { run } = await train({
    ...{ agent, environment, reward: rewardFunction({ name: "one" }, () => 1), steps: 1, groupsPerStep: 1 },
    ...{ groupSize: 2, dir: false, seed: 1, recall: false },
    callbacks: { onRollouts: ({ groups }) => void trajectories.push(...groups.flatMap((one) => one.trajectories)) },
  });
  return { metrics: run.metrics[0]!, trajectories };
}

function talk(): ConversationEnvironment {
  return new ConversationEnvironment({ scenarios: [{ id: "a", userResponses: ["Please act."] }] });
}

const cycle: Record<string, unknown> = {};
cycle.self = cycle;
const thrower = (what: unknown) => () => {
  throw what;
};
const depth = 20_000;

/** What it does, what it is counted as, and what the model reads. */
const results: [string, () => unknown, string | undefined, string | RegExp][] = [
  ["throws what is no error", thrower("plain words"), "failed", "plain words"],
  ["throws undefined", thrower(undefined), "failed", "undefined"],
  ["throws an object without a prototype", thrower(Object.create(null)), "failed", "object that cannot be printed"],
  ["throws what throws when printed", thrower(unprintable()), "failed", "object that cannot be printed"],
  ["returns undefined", () => undefined, undefined, "(no result)"],
  ["returns a BigInt", () => 12n, undefined, '"12"'],
  ["returns a cycle", () => cycle, "failed", "its result holds itself"],
  ["returns 50 MB", () => "x".repeat(50_000_000), "too_large", "50000000 characters"],
  ["returns never", () => new Promise(() => {}), "timeout", "within 30 ms"],
  ["returns a symbol", () => Symbol("s"), "failed", "its result is a symbol"],
  ["returns what is nested without end", () => nested(), "failed", "cannot be written"],
];

function unprintable(): object {
  const self: object = { toString: () => thrower(self)() };
  return self;
}

function nested(): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

describe("a tool that", () => {
  it.each(results)("%s costs one result, which is counted, and the episode goes on", async (_, execute, kind, text) => {
    const act = tool({ name: "act", timeoutMs: 30, execute });
    const environments = { agent: talk(), environment: taskWith(execute) };
    for (const [by, environment] of Object.entries(environments)) {
      // A task's tools answer in time or not at all: they are functions of a state.
      if (by === "environment" && kind === "timeout") continue;
      const { metrics, trajectories } = await step(call("{}"), by === "agent" ? [act] : undefined, environment);
      expect(metrics.toolCalls).toBe(2);
      const failures = Object.entries(metrics).filter(([name]) => name.startsWith("toolFailures/"));
      expect(failures).toEqual(kind === undefined ? [] : [[`toolFailures/${kind}`, 2]]);
      expect(trajectories).toHaveLength(2);
      for (const { turns, ended } of trajectories) {
        expect(ended).toBe("done");
        expect(turns[2]).toMatchObject({ role: "tool", content: expect.stringContaining(text as string) });
        expect(turns.at(-1)).toMatchObject({ role: "assistant", content: "done" });
      }
    }
  });
});

function taskWith(run: () => unknown): TaskEnvironment {
  return new TaskEnvironment({
    tasks: [{ id: "a", prompt: "Please act.", expect: { writes: [] } }],
    tools: [{ name: "act", run: () => ({ result: run() }) }],
  });
}

describe("a call whose arguments are", () => {
  it.each([
    ["an array", "[1]", "invalid_json"],
    ["a number", "7", "invalid_json"],
    ["text", '"{"', "invalid_json"],
    ["deeply nested", `{"n":${"[".repeat(depth)}${"]".repeat(depth)}}`, "invalid_arguments"],
    ["cut off", '{"n": 1', "invalid_json"],
    ["of another type", '{"n":"one"}', "invalid_arguments"],
  ])("%s is counted, and never runs", async (_, args, kind) => {
    const execute = vi.fn(() => "ran");
    const act = tool({ name: "act", parameters: { type: "object", properties: { n: { type: "number" } } }, execute });
    const { metrics, trajectories } = await step(call(args), [act]);
    expect(metrics[`toolFailures/${kind}`]).toBe(2);
    expect(execute).not.toHaveBeenCalled();
    expect(trajectories.map(({ turns }) => turns.at(-1)!.content)).toEqual(["done", "done"]);
  });
});

describe("is an error by name, before anything is sampled:", () => {
  const act = (name: string) => tool({ name, execute: () => 1 });
  it.each<[string, () => unknown, string]>([
    ["two tools of one name", () => new MultiTurnAgent({ tools: [act("a"), act("a")] }), 'Two tools are called "a".'],
    ["a name with a space", () => act("look up"), "a name of 1 to 64 letters, digits, _, . and - was expected"],
    ["a name of other letters", () => act("найти"), "a name of 1 to 64 letters"],
    ["an empty name", () => act(""), "a name of 1 to 64 letters"],
    ["a name that begins with a digit", () => act("2fa"), "beginning with a letter or _"],
    [
      "a name that the format cannot write",
      () =>
        new MultiTurnAgent({
          policy: createTablePolicy(),
          tools: [act("a-b")],
          callFormat: "pythonic",
        }).startConversation(),
      'cannot write calls to "a-b" in its format',
    ],
    [
      "a schema that is a list",
      () => tool({ name: "a", parameters: [] as never, execute: () => 1 }),
      "it is no object",
    ],
    [
      "a schema of a type that there is not",
      () => tool({ name: "a", parameters: { type: "text" } as never, execute: () => 1 }),
      'parameters of the tool "a"',
    ],
    [
      "a schema of a number",
      () => tool({ name: "a", parameters: { type: "number" }, execute: () => 1 }),
      'is of type "number"',
    ],
    ["no function", () => tool({ name: "a", execute: 1 as never }), "a function was expected"],
    ["a tool that is none", () => new MultiTurnAgent({ tools: [{ name: "a" }] as never }), 'tools[0] ("a") is no tool'],
  ])("%s", (_, make, message) => {
    expect(make).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringContaining(message) }),
    );
  });
});

it("a template with no place for tools is said once, and the tools are told in the system prompt", async () => {
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  try {
    const { trajectories } = await step(call("{}"), [tool({ name: "act", execute: () => "acted" })]);
    const said = warn.mock.calls.filter(([text]) => String(text).includes("has no place for tools"));
    expect(said).toHaveLength(1);
    for (const { chains, turns } of trajectories) {
      expect(chains[0]!.prompt!.messages[0]).toMatchObject({
        role: "system",
        content: expect.stringContaining('"act"'),
      });
      expect(turns[2]!.content).toBe("acted");
    }
  } finally {
    warn.mockRestore();
  }
});

describe("an episode", () => {
  const failing = async (environment: Environment) => {
    const error = await step("hm", undefined, environment).catch((thrown: unknown) => thrown);
    return String(error instanceof Error ? `${error.message} ${(error as { hint?: string }).hint ?? ""}` : "it passed");
  };
  const task = { id: "late", prompt: "Where is it?", expect: { writes: [] } };

  it("whose check throws is a failure that names its task, and what it threw", async () => {
    const fails = thrower("not even an error") as () => never;
    let asked = 0;
    const once = () => (asked++ === 0 ? fails() : true);
    const of = (check: () => boolean) => new TaskEnvironment({ tasks: [task], tools: [], check });
    const { metrics, trajectories } = await step("hm", undefined, of(once));
    expect(metrics).toMatchObject({ failedConversations: 1, environmentFailures: 1 });
    const said = 'The check of task "late" threw: not even an error';
    expect(trajectories.map(({ ended }) => ended).sort()).toEqual(["done", "failed"]);
    expect(trajectories.find(({ ended }) => ended === "failed")!.failure).toMatchObject({
      during: "step",
      message: expect.stringContaining(said),
    });
    expect(await failing(of(fails))).toContain(said);
  });

  it.each<[string, unknown]>([
    ["nothing", ""],
    ["blanks", " \n"],
    ["null", null],
    ["an object", {}],
  ])("whose user says %s is a failure of the user, by name", async (_, said) => {
    const user: User = { begin: () => "Hi.", reply: () => said as string };
    for (const environment of [
      new TaskEnvironment({ tasks: [task], tools: [], user }),
      new ConversationEnvironment({ scenarios: [{ id: "late" }], user }),
    ]) {
      expect(await failing(environment)).toMatch(/user of scenario "late" said (nothing|what is no text)/);
    }
  });
});
