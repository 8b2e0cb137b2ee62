/** One connection to an MCP server, from its start until it goes away. */
import type { CallToolResult, Client, Tool as ServerTool, Transport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { withDeadline } from "../../abort.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { longestTimerMs } from "../../options.ts";
import { Refusal } from "../run-calls.ts";
import { boundedFetch, tooLarge } from "./bounded-fetch.ts";
import { mostBytes, mostPages, mostTools } from "./limits.ts";
import type { ReadServer } from "./options.ts";

export interface Connection {
  /** What the server calls itself. */
  readonly title: string | undefined;
  readonly instructions: string | undefined;
  /** False when the server went away, or said something after which nothing else can be read. */
  readonly alive: boolean;
  /** All pages, as they came. */
  list(): Promise<unknown[]>;
  call(definition: ServerTool, args: Record<string, unknown>, signal: AbortSignal): Promise<CallToolResult>;
  close(): Promise<void>;
}

/** The server does not know this session, so it has done nothing of what it was asked. */
export class SessionLost extends Error {}

export interface ConnectOptions {
  startTimeoutMs: number;
  onListChanged(): void;
  /** The server ended by itself. `lastWords` is what it wrote to its standard error before. */
  onGone(lastWords: string): void;
}

const page = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

export async function connect(server: ReadServer, options: ConnectOptions): Promise<Connection> {
  const { Client } = await loadClient();
  const { transport, lastWords, end, kill } = await transportFor(server);
  const client = new Client({ name: "stateset-agents", version: "0" });
  let closing = false;
  let alive = true;
  let breakOff: (error: Error) => void = () => {};
  const broken = new Promise<never>((_, reject) => {
    breakOff = reject;
  });
  broken.catch(() => {});
  client.onclose = () => {
    alive = false;
    if (!closing) options.onGone(lastWords());
  };
  client.onerror = (error) => {
    // What goes wrong with a call fails that call. This alone ends the connection, and whoever floods is not asked to stop.
    if (!/exceeded maximum size/.test(messageOf(error))) return;
    alive = false;
    kill();
    breakOff(new Refusal("too_large", `The tool failed: its answer has more than ${mostBytes} bytes.`));
  };
  const close = async () => {
    if (closing) return;
    closing = true;
    alive = false;
    await end();
    await client.close().catch(() => {});
  };
  const timeout = options.startTimeoutMs;
  try {
    client.setNotificationHandler("notifications/tools/list_changed", () => options.onListChanged());
    await client.connect(transport, { timeout });
  } catch (error) {
    closing = true;
    await client.close().catch(() => {});
    const said = lastWords();
    const doing = server.kind === "command" ? "started" : "reached";
    throw new StatesetError(
      "MCP_FAILED",
      server.redact(
        `The MCP server "${server.name}" could not be ${doing}: ${problemOf(error)}.${said && ` It said last: ${said}`}`,
      ),
      { hint: hintFor(server) },
    );
  }
  return {
    title: client.getServerVersion()?.name,
    instructions: client.getInstructions(),
    get alive() {
      return alive;
    },
    list: () => Promise.race([listAll(client, timeout), broken]),
    async call({ outputSchema: _, ...definition }, args, signal) {
      const params = { name: definition.name, arguments: args };
      try {
        // The deadline is the tool's own. Results are checked by whoever asked, in bounded time.
        const answer = client.callTool(params, { signal, timeout: longestTimerMs, toolDefinition: definition });
        return await Promise.race([answer, broken]);
      } catch (error) {
        const { status, data } = error as { status?: unknown; data?: unknown };
        if ((status === 404 || status === 400) && transport.sessionId !== undefined) throw new SessionLost();
        if (data === tooLarge) throw new Refusal("too_large", `The tool failed: ${messageOf(error)}.`);
        if (error instanceof Refusal) throw error;
        if (!alive) throw new Error("the server went away before it answered");
        throw new Error(server.redact(problemOf(error)));
      }
    },
    close,
  };
}

async function listAll(client: Client, timeout: number): Promise<unknown[]> {
  const found: unknown[] = [];
  if (!client.getServerCapabilities()?.tools) return found;
  let cursor: string | undefined;
  for (let pages = 0; pages < mostPages; pages++) {
    const params = cursor === undefined ? {} : { cursor };
    // By a schema of our own: by the client's, one tool that is none would cost all of them.
    const { tools, nextCursor } = await client.request({ method: "tools/list", params }, page, { timeout });
    found.push(...tools);
    if (found.length > mostTools) throw new Error(`it has more than ${mostTools} tools`);
    if (nextCursor === undefined) return found;
    cursor = nextCursor;
  }
  throw new Error(`its list of tools has more than ${mostPages} pages`);
}

/** Loaded when a server is asked for: who uses none need not install it. */
async function loadClient() {
  try {
    return await import("@modelcontextprotocol/client");
  } catch (error) {
    throw new StatesetError("MCP_FAILED", "The client of MCP servers is not installed.", {
      hint: "npm install @modelcontextprotocol/client",
      cause: error,
    });
  }
}

interface Wire {
  transport: Transport;
  lastWords(): string;
  /** What is to be said before it is closed. */
  end(): Promise<void>;
  /** Ends the process, where there is one. */
  kill(): void;
}

async function transportFor(server: ReadServer): Promise<Wire> {
  if (server.kind === "address") {
    const { StreamableHTTPClientTransport } = await loadClient();
    const transport = new StreamableHTTPClientTransport(server.url, {
      requestInit: { headers: server.headers },
      fetch: boundedFetch(),
    });
    const end = () => withDeadline(() => transport.terminateSession(), { timeoutMs: 1000 }).catch(() => {});
    return { transport, lastWords: () => "", end, kill: () => {} };
  }
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const { command, args, env, cwd } = server;
  const transport = new StdioClientTransport({
    command,
    args,
    env,
    ...(cwd !== undefined && { cwd }),
    // What it prints would run through the progress of a run.
    stderr: "pipe",
    maxBufferSize: mostBytes,
  });
  let said = "";
  transport.stderr?.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString("utf8")).slice(-1000);
  });
  const kill = () => {
    try {
      if (transport.pid !== null) process.kill(transport.pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  };
  return { transport, lastWords: () => server.redact(said.trim()), end: async () => {}, kill };
}

/** One line, with what caused it where that says more, and without what a server may have put in at length. */
function problemOf(error: unknown): string {
  const { cause, status } = error as { cause?: unknown; status?: unknown };
  const message = messageOf(error) + (cause instanceof Error ? `: ${cause.message}` : "");
  const said = typeof status === "number" ? message.replace(/^Error POSTing to endpoint:/, `HTTP ${status}:`) : message;
  const line = said.replace(/\s+/g, " ").trim().replace(/\.$/, "");
  return line.length > 500 ? `${line.slice(0, 500)} …` : line;
}

function hintFor(server: ReadServer): string {
  return server.kind === "command"
    ? "Run the command by hand to see what it says. Of this process's environment it gets PATH and HOME, and what env names."
    : "See that the address is the one of its MCP endpoint, often /mcp, and that headers hold what it asks for.";
}
