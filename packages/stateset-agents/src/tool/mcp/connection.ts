/** One connection to an MCP server, from its start until it goes away. */
import type { CallToolResult, Client, Tool as ServerTool, Transport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { withDeadline } from "../../abort.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { longestTimerMs } from "../../options.ts";
import { Refusal } from "../run-calls.ts";
import { boundedFetch, tooLarge } from "./bounded-fetch.ts";
import { brief } from "./brief.ts";
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

/** How a server is greeted: as all do, or by the revision of 2026, which some speak alone. */
type Greeting = "legacy" | "auto";

export async function connect(server: ReadServer, options: ConnectOptions): Promise<Connection> {
  const sdk = await loadSdk();
  try {
    return await attempt(sdk, server, options, "legacy");
  } catch (error) {
    if (!(error instanceof NotStarted && error.answered)) throw asError(error, server);
  }
  return attempt(sdk, server, options, "auto").catch((error: unknown) => {
    throw asError(error, server);
  });
}

class NotStarted extends Error {
  /** Whether the server answered at all, if only to refuse. */
  readonly answered: boolean;
  constructor(message: string, answered: boolean) {
    super(message);
    this.answered = answered;
  }
}

function asError(error: unknown, server: ReadServer): StatesetError {
  const doing = server.kind === "command" ? "started" : "reached";
  const message = server.redact(`The MCP server "${server.name}" could not be ${doing}: ${messageOf(error)}`);
  return new StatesetError("MCP_FAILED", message, { hint: hintFor(server) });
}

async function attempt(
  sdk: Sdk,
  server: ReadServer,
  { startTimeoutMs: timeout, onListChanged, onGone }: ConnectOptions,
  mode: Greeting,
): Promise<Connection> {
  const { transport, lastWords, end, kill } = transportFor(sdk, server);
  const client = new sdk.Client(
    { name: "stateset-agents", version: "0" },
    {
      versionNegotiation: { mode },
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: onListChanged } },
    },
  );
  let closing = false;
  let alive = true;
  const waiting = new Set<(error: Error) => void>();
  /** Waits for an answer unless the connection is broken off. A race with one promise of that would keep every answer in memory. */
  const unlessBroken = <T>(answer: Promise<T>) =>
    new Promise<T>((resolve, reject) => {
      waiting.add(reject);
      answer.then(resolve, reject).finally(() => waiting.delete(reject));
    });
  client.onclose = () => {
    alive = false;
    if (!closing) onGone(lastWords());
  };
  client.onerror = (error) => {
    // What goes wrong with a call fails that call. This alone ends the connection, and whoever floods is not asked to stop.
    if (!/exceeded maximum size/.test(messageOf(error))) return;
    alive = false;
    kill();
    const problem = new Refusal("too_large", `The tool failed: its answer has more than ${mostBytes} bytes.`);
    for (const reject of waiting) reject(problem);
  };
  const close = async () => {
    if (closing) return;
    closing = true;
    alive = false;
    await end();
    await client.close().catch(() => {});
  };
  // It is not started yet, so it cannot go away.
  closing = true;
  try {
    await client.connect(transport, { timeout });
  } catch (error) {
    await client.close().catch(() => {});
    const said = lastWords();
    const { code, status } = error as { code?: unknown; status?: unknown };
    throw new NotStarted(
      `${problemOf(error)}.${said && ` It said last: ${said}`}`,
      typeof code === "number" || status === 400,
    );
  }
  closing = false;
  return {
    title: client.getServerVersion()?.name,
    instructions: client.getInstructions(),
    get alive() {
      return alive;
    },
    list: () => unlessBroken(listAll(client, timeout)),
    async call({ outputSchema: _, ...definition }, args, signal) {
      const params = { name: definition.name, arguments: args };
      try {
        // The deadline is the tool's own. Results are checked by whoever asked, in bounded time.
        const answer = client.callTool(params, { signal, timeout: longestTimerMs, toolDefinition: definition });
        return await unlessBroken(answer);
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

type Sdk = Awaited<ReturnType<typeof loadSdk>>;

/** Loaded when a server is asked for: who uses none need not install it. Bundlers want it said at each that it may fail. */
async function loadSdk() {
  const [main, stdio] = await Promise.all([
    import("@modelcontextprotocol/client").catch(notInstalled),
    import("@modelcontextprotocol/client/stdio").catch(notInstalled),
  ]);
  return { ...main, ...stdio };
}

function notInstalled(error: unknown): never {
  throw new StatesetError("MCP_FAILED", "The client of MCP servers is not installed.", {
    hint: "npm install @modelcontextprotocol/client",
    cause: error,
  });
}

interface Wire {
  transport: Transport;
  lastWords(): string;
  /** What is to be said before it is closed. */
  end(): Promise<void>;
  /** Ends the process, where there is one. */
  kill(): void;
}

function transportFor({ StdioClientTransport, StreamableHTTPClientTransport }: Sdk, server: ReadServer): Wire {
  if (server.kind === "address") {
    const transport = new StreamableHTTPClientTransport(server.url, {
      requestInit: { headers: server.headers },
      fetch: boundedFetch(),
    });
    const end = () => withDeadline(() => transport.terminateSession(), { timeoutMs: 1000 }).catch(() => {});
    return { transport, lastWords: () => "", end, kill: () => {} };
  }
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
  return { transport, lastWords: () => brief(server.redact(said), 1000), end: async () => {}, kill };
}

/** One line, with what caused it where that says more, and without what a server may have put in at length. */
function problemOf(error: unknown): string {
  const { cause, status } = error as { cause?: unknown; status?: unknown };
  const message = messageOf(error) + (cause instanceof Error ? `: ${cause.message}` : "");
  const said = typeof status === "number" ? message.replace(/^Error POSTing to endpoint:/, `HTTP ${status}:`) : message;
  return brief(said.trim().replace(/\.$/, ""));
}

function hintFor(server: ReadServer): string {
  return server.kind === "command"
    ? "Run the command by hand to see what it says. Of this process's environment it gets PATH and HOME, and what env names."
    : "See that the address is the one of its MCP endpoint, often /mcp, and that headers hold what it asks for.";
}
