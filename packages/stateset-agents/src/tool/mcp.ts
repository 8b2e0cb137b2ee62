/**
 * The tools of an MCP server, as tools of an agent. Whatever the server does costs one failed call at most: it hangs, crashes, floods, or
 * answers otherwise than it said it would.
 */
import { messageOf, StatesetError } from "../error.ts";
import { didYouMean } from "../suggest.ts";
import { brief } from "./mcp/brief.ts";
import { Link } from "./mcp/link.ts";
import { type McpOptions, type McpServer, readOptions, readServer } from "./mcp/options.ts";
import { type LeftOutTool, nameOf, type TakenTools, takeTools } from "./mcp/take-tools.ts";
import { Refusal } from "./run-calls.ts";
import type { Tool } from "./tool.ts";

export interface McpTools {
  /** Those the server has now. An agent keeps the ones it was made with. */
  readonly tools: Tool<Record<string, unknown>>[];
  /** Those that cannot be used, and why. */
  readonly leftOut: readonly LeftOutTool[];
  /** What the server says of how to use it, where it does: for the system prompt, if you trust it. */
  readonly instructions: string | undefined;
  /** Ends the connection, and the process where there is one. */
  close(): Promise<void>;
}

/**
 * Starts an MCP server, or connects to one, and takes its tools. Needs `npm install @modelcontextprotocol/client`.
 *
 * @example
 * const files = await mcpTools({ command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] });
 * const agent = new ToolAgent({ tools: files.tools });
 */
export async function mcpTools(server: McpServer, options: McpOptions = {}): Promise<McpTools> {
  const own = readOptions(options);
  const target = readServer(server);
  let names: string[] = [];
  let taken: TakenTools = { tools: new Map(), leftOut: [] };
  let started = false;
  const warn = () => {
    if (taken.leftOut.length === 0) return;
    const which = taken.leftOut.map(({ name, problem }) => `"${brief(name)}": ${brief(problem)}`).join("\n  ");
    process.emitWarning(`Some tools of the MCP server "${link.name}" cannot be used.\n  ${which}`, {
      type: "StatesetWarning",
      code: "MCP_TOOL_LEFT_OUT",
    });
  };
  const link = new Link(target, {
    startTimeoutMs: own.startTimeoutMs,
    onList(listed) {
      const before = taken;
      names = listed.flatMap((one) => nameOf(one) ?? []);
      taken = takeTools(listed, { ...own, redact: target.redact }, async (definition, args, signal) => {
        if (!taken.tools.has(definition.name))
          throw new Refusal("unknown_tool", `The server no longer has the tool "${definition.name}".`);
        return link.call(definition, args, signal);
      });
      if (!started) return;
      const added = [...taken.tools.keys()].filter((name) => !before.tools.has(name));
      const removed = [...before.tools.keys()].filter((name) => !taken.tools.has(name));
      if (added.length + removed.length === 0) return;
      warn();
      try {
        own.onChange?.({ added, removed });
      } catch (error) {
        process.emitWarning(`onChange of mcpTools failed: ${messageOf(error)}`, { type: "StatesetWarning" });
      }
    },
  });
  const { instructions } = await link.open();
  const missing = own.only?.find((name) => !names.includes(name));
  if (missing !== undefined) {
    await link.close();
    throw new StatesetError("INVALID_OPTION", `The MCP server "${link.name}" has no tool "${missing}".`, {
      hint: didYouMean(
        missing,
        names.map((name) => brief(name)),
      ),
    });
  }
  started = true;
  warn();
  return {
    get tools() {
      return [...taken.tools.values()];
    },
    get leftOut() {
      return taken.leftOut;
    },
    instructions,
    close: () => link.close(),
  };
}
