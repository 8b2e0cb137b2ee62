/** Against a server that is started by the test and misbehaves. */
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { openPolicy } from "../policy/open-policy.ts";
import { caller } from "../test-support/tool-caller.ts";
import type { McpOptions, McpServer } from "./mcp/options.ts";
import { type McpTools, mcpTools } from "./mcp.ts";
import { readTools } from "./read-tools.ts";

const script = fileURLToPath(new URL("../test-support/rogue-mcp-server.mjs", import.meta.url));
const key = "sk-very-secret-1234";
const rogue = (...args: string[]) => ({ command: process.execPath, args: [script, ...args], env: { SHOP_KEY: key } });

const opened: McpTools[] = [];
const open = async (options: McpOptions = {}, ...args: string[]) => {
  const server = await mcpTools(rogue(...args), options);
  opened.push(server);
  return server;
};
const namesOf = ({ tools }: McpTools) => tools.map(({ definition }) => definition.function.name);

let warnings: string[];
beforeEach(() => {
  warnings = [];
  vi.spyOn(process, "emitWarning").mockImplementation((text) => void warnings.push(String(text)));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all(opened.splice(0).map((server) => server.close()));
});

describe("the tools of an MCP server", () => {
  it("are read over all pages, and those that are none cost themselves alone", async () => {
    const server = await open();
    expect(namesOf(server)).toEqual([
      ...["echo", "pid", "env", "cancelled", "empty", "failing", "refusing", "hang", "crash", "flood", "large", "liar"],
      ...["honest", "mixed", "twice", "babble", "nonsense", "grow", "shrink"],
    ]);
    expect(Object.fromEntries(server.leftOut.map(({ name, problem }) => [name, problem]))).toEqual({
      no_schema: expect.stringContaining("inputSchema"),
      bad_schema: expect.stringContaining("is no JSON schema that can be checked"),
      list_schema: 'parameters of the tool "list_schema" is of type "array".',
      bad_output: expect.stringContaining("output schema"),
      looks_ahead: expect.stringContaining("looks ahead"),
      "white space": expect.stringContaining("a name of 1 to 64 letters"),
      echo: "Another one before it has this name.",
      task_only: expect.stringContaining("as a task only"),
      "number 28": expect.stringContaining("expected object"),
    });
    expect(warnings).toEqual([
      expect.stringMatching(/^Some tools of the MCP server "rogue" cannot be used\.\n {2}"no_/),
    ]);
    expect(server.instructions).toBe("Beware.");
  });

  it("answer in words", async () => {
    const call = caller((await open()).tools);
    expect(await call("echo", { text: "hi" })).toEqual({ text: "hi" });
    expect(await call("empty")).toEqual({ text: "(no result)" });
    expect(await call("honest")).toEqual({ text: '{"n":7}' });
    expect(await call("mixed")).toEqual({ text: '{"n":7}\nSeven it is.' });
    expect(await call("twice")).toEqual({ text: "first" });
    expect(await call("babble")).toEqual({ text: "sense" });
  });

  it.each<[string, string, string]>([
    ["failing", "failed", "The tool failed: no stock; my key is [SHOP_KEY]"],
    ["refusing", "failed", "not with the key [SHOP_KEY]"],
    ["crash", "failed", "The tool failed: the server went away before it answered"],
    ["flood", "too_large", "its answer has more than 10485760 bytes"],
    ["large", "too_large", "2000000 characters"],
    ["liar", "failed", "it answers otherwise than it says: its result.n is not of type number"],
    ["nonsense", "failed", "Invalid result"],
  ])("cost one result where one is %s, and the next is answered", async (name, failure, text) => {
    const call = caller((await open()).tools);
    const outcome = await call(name);
    expect(outcome).toMatchObject({ failure, text: expect.stringContaining(text) });
    expect(outcome.text).not.toContain(key);
    expect(await call("echo", { text: "next" })).toEqual({ text: "next" });
  });

  it("are told to stop when they take too long, or when the conversation is stopped", async () => {
    const server = await open({ timeoutMs: 2000 });
    const outcomes = await caller(server.tools.map((one) => ({ ...one, timeoutMs: 100 })))("hang");
    expect(outcomes).toMatchObject({ failure: "timeout", text: expect.stringContaining("within 100 ms") });
    const controller = new AbortController();
    const stopped = caller(server.tools, controller.signal)("hang");
    setTimeout(() => controller.abort(), 20);
    await expect(stopped).rejects.toMatchObject({ code: "ABORTED" });
    const { text } = await caller(server.tools)("cancelled");
    expect(JSON.parse(text)).toHaveLength(2);
  });

  it("are named with a prefix, and two of one name say that there is one", async () => {
    const only = ["echo"];
    const [one, two] = await Promise.all([open({ only }), open({ only })]);
    expect(() => readTools([...one.tools, ...two.tools])).toThrow(
      /Two tools are called "echo"\..*mcpTools\(server, \{ prefix: "other_" \}\)/,
    );
    const other = await open({ only, prefix: "other_" });
    const call = caller([...one.tools, ...other.tools]);
    expect(await call("other_echo", { text: "hi" })).toEqual({ text: "hi" });
  });

  it("need approval where that is asked for", async () => {
    const asked: unknown[] = [];
    const needsApproval: McpOptions["needsApproval"] = ({ name, arguments: args }) => {
      asked.push([name, args]);
      return name === "shop_pid";
    };
    const call = caller((await open({ needsApproval, prefix: "shop_" })).tools);
    expect(await call("shop_pid")).toMatchObject({ failure: "denied" });
    expect(await call("shop_echo", { text: "hi" })).toEqual({ text: "hi" });
    expect(asked).toEqual([
      ["shop_pid", {}],
      ["shop_echo", { text: "hi" }],
    ]);
  });

  it("follow the server's list, and one that is gone is not called", async () => {
    const changes: unknown[] = [];
    const server = await open({ onChange: (change) => changes.push(change) });
    const first = caller(server.tools);
    await first("grow");
    await vi.waitFor(() => expect(changes).toEqual([{ added: ["late"], removed: [] }]));
    const grown = caller(server.tools);
    expect(await grown("late")).toEqual({ text: "here now" });
    expect(await first("late")).toMatchObject({ failure: "unknown_tool" });
    await first("shrink");
    await vi.waitFor(() => expect(changes).toHaveLength(2));
    expect(namesOf(server)).not.toContain("late");
    expect(await grown("late")).toMatchObject({ failure: "unknown_tool", text: expect.stringContaining("no longer") });
  });
});

describe("an MCP server", () => {
  it("that went away is started again by the next calls, once, and is warned about, once", async () => {
    const call = caller((await open()).tools);
    warnings = [];
    const { text: first } = await call("pid");
    await call("crash");
    const [one, two] = await Promise.all([call("pid"), call("pid")]);
    expect(one).toEqual(two);
    expect(one.text).toMatch(/^\d+$/);
    expect(one.text).not.toBe(first);
    await call("crash");
    expect(warnings).toEqual([
      'The MCP server "rogue" went away. The next call starts it again. It said last: out of paper, key [SHOP_KEY]',
    ]);
  });

  it("cannot draw on the terminal by what is said of it", async () => {
    const { tools } = await open({}, "coloured");
    await caller(tools)("crash");
    await vi.waitFor(() => expect(warnings).toHaveLength(2));
    const [left, gone] = warnings;
    expect(left).toContain('MCP server "\ufffd[31mrogue\ufffd" cannot be used');
    expect(left).toContain('\n  "clear\ufffd[2J screen": Invalid value for');
    expect(gone).toContain("It said last: \ufffd[2J out of paper, key [SHOP_KEY]");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what is looked for.
    expect(warnings.join("")).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    await expect(open({ only: ["ecko"] }, "coloured")).rejects.toThrow('MCP server "\ufffd[31mrogue');
  });

  it("that cannot be started again fails each call, until it can", async () => {
    const moved = join(temporaryFolder(), "server.mjs");
    copyFileSync(script, moved);
    const server = await mcpTools({ command: process.execPath, args: [moved] });
    opened.push(server);
    const call = caller(server.tools);
    rmSync(moved);
    await call("crash");
    const lost = { failure: "failed", text: expect.stringContaining("could not be started: Connection closed") };
    expect(await Promise.all([call("pid"), call("pid")])).toMatchObject([lost, lost]);
    copyFileSync(script, moved);
    expect((await call("pid")).failure).toBeUndefined();
  });

  it("gets of the environment what is named, and no more than it takes to start", async () => {
    vi.stubEnv("OTHER_SECRET", "not yours");
    const { text } = await caller((await open()).tools)("env");
    const { SHOP_KEY, ...rest } = JSON.parse(text);
    expect(SHOP_KEY).toBe(key);
    const start = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];
    expect(Object.keys(rest).filter((name) => !start.includes(name) && !name.startsWith("__"))).toEqual([]);
    vi.unstubAllEnvs();
  });

  it("without tools gives none", async () => {
    expect(await open({}, "unlisted")).toMatchObject({ tools: [], leftOut: [] });
  });

  it("that is closed answers nothing more", async () => {
    const server = await open();
    const call = caller(server.tools);
    await server.close();
    expect(await call("echo")).toMatchObject({
      failure: "failed",
      text: expect.stringContaining('"rogue\\" was closed'),
    });
  });

  it.each<[string, McpServer, McpOptions, string, RegExp]>([
    [
      "is not there",
      { command: "no-such-command" },
      {},
      "MCP_FAILED",
      /"no-such-command" could not be started: .*ENOENT/,
    ],
    [
      "ends at once",
      rogue("exit"),
      {},
      "MCP_FAILED",
      /could not be started: Connection closed\. It said last: cannot read my settings, key \[SHOP_KEY\] Run the command by hand/,
    ],
    ["says nothing", rogue("mute"), { startTimeoutMs: 200 }, "MCP_FAILED", /could not be started: Request timed out/],
    ["has pages without end", rogue("endless"), {}, "MCP_FAILED", /cannot be listed: its list .* more than 100 pages/],
    [
      "lacks a tool",
      rogue(),
      { only: ["ecko"] },
      "INVALID_OPTION",
      /"rogue" has no tool "ecko"\. Did you mean "echo"\?/,
    ],
    ["is meant otherwise", rogue(), { prefx: "a" } as never, "INVALID_OPTION", /"prefx" .*Did you mean "prefix"/],
    ["is no server", { comand: "node" } as never, {}, "INVALID_OPTION", /mcpTools/],
    ["has no address", { url: "localhost" }, {}, "INVALID_OPTION", /mcpTools\.url: an address that begins with http/],
    [
      "would get a header that is none",
      { url: "http://localhost", headers: { key: "very\nsecret" } },
      {},
      "INVALID_OPTION",
      /mcpTools\.headers\.key is no header/,
    ],
  ])("that %s is a named error", async (_, server, options, code, message) => {
    const error = await mcpTools(server, options).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    expect(`${error} ${JSON.stringify(error)} ${(error as Error).stack}`).not.toMatch(/sk-very|very\nsecret/);
  });

  it("may do all that in one reply, and the agent still answers", async () => {
    const call = (name: string, args = {}) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;
    const queue = [
      ...["failing", "crash", "flood", "liar", "twice", "large"].map((name) => call(name)),
      // Side by side: the one that was under way is lost with the server.
      `${call("hang")}\n${call("crash")}`,
      call("echo", { text: "Hello" }),
      "All done.",
    ];
    const policy = await openPolicy({ model: "stub://tools", stub: { replies: () => queue.shift()! } });
    const { tools } = await open();
    const agent = new MultiTurnAgent({ policy, tools, maxToolSteps: 20, sampling: { maxTokens: 400 } });
    const { turn, turns } = await agent.respond([{ role: "user", content: "Try." }]);
    expect(turns.filter(({ role }) => role === "tool").map(({ metadata }) => metadata?.toolFailure)).toEqual([
      ...["failed", "failed", "too_large", "failed", undefined, "too_large", "failed", "failed", undefined],
    ]);
    expect(turn.content).toBe("All done.");
  });
});
