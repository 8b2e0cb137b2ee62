/** An MCP server across its connections: one that went away is connected to again by the next call, once a call. */
import type { CallToolResult, Tool as ServerTool } from "@modelcontextprotocol/client";
import { messageOf, StatesetError } from "../../error.ts";
import { brief } from "./brief.ts";
import { type Connection, connect, SessionLost } from "./connection.ts";
import type { ReadServer } from "./options.ts";

export interface LinkOptions {
  startTimeoutMs: number;
  /** Given what the server lists, after every connection and when it says that its list has changed. */
  onList(listed: readonly unknown[]): void;
}

export class Link {
  readonly #server: ReadServer;
  readonly #options: LinkOptions;
  #connection: Promise<Connection> | undefined;
  #closed = false;
  /** Listing again after a change; whether it changed once more meanwhile. */
  #listing: { again: boolean } | undefined;
  #warned = false;
  #title: string | undefined;

  constructor(server: ReadServer, options: LinkOptions) {
    this.#server = server;
    this.#options = options;
  }

  /** What the server calls itself; until it has said so, what it was called. */
  get name(): string {
    return this.#title ?? this.#server.name;
  }

  /** The connection there is, or a new one. Whoever asks meanwhile waits for the same. */
  async open(): Promise<Connection> {
    if (this.#closed) throw new Error(`the MCP server "${this.name}" was closed`);
    const now = this.#connection;
    if (now) {
      const connection = await now;
      if (connection.alive) return connection;
      if (this.#connection === now) this.#connection = undefined;
      return this.open();
    }
    const opening = this.#connect();
    this.#connection = opening;
    opening.catch(() => {
      if (this.#connection === opening) this.#connection = undefined;
    });
    return opening;
  }

  async call(definition: ServerTool, args: Record<string, unknown>, signal: AbortSignal): Promise<CallToolResult> {
    const connection = await this.open();
    try {
      return await connection.call(definition, args, signal);
    } catch (error) {
      // A call that was under way may have done something, and is not repeated; this one was refused at the door.
      if (!(error instanceof SessionLost)) throw error;
      await this.#drop(connection);
      return (await this.open()).call(definition, args, signal);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const connection = await this.#connection?.catch(() => undefined);
    await connection?.close();
  }

  async #connect(): Promise<Connection> {
    const connection = await connect(this.#server, {
      startTimeoutMs: this.#options.startTimeoutMs,
      onListChanged: () => void this.#listAgain(),
      onGone: (lastWords) => this.#warn(lastWords),
    });
    this.#title = connection.title && brief(connection.title);
    try {
      this.#options.onList(await connection.list());
    } catch (error) {
      await connection.close();
      if (StatesetError.isInstance(error)) throw error;
      const problem = `The tools of the MCP server "${this.name}" cannot be listed: ${messageOf(error)}.`;
      throw new StatesetError("MCP_FAILED", this.#server.redact(problem), {
        hint: "It must answer tools/list as the protocol says.",
      });
    }
    return connection;
  }

  async #drop(connection: Connection): Promise<void> {
    if ((await this.#connection?.catch(() => undefined)) === connection) this.#connection = undefined;
    await connection.close();
  }

  /** One listing at a time, and one more where the list changed meanwhile. What it cannot say leaves the tools as they were. */
  async #listAgain(): Promise<void> {
    if (this.#listing) {
      this.#listing.again = true;
      return;
    }
    const own = { again: true };
    this.#listing = own;
    try {
      // While it connects, its first list is still to come.
      const connection = await this.#connection;
      while (own.again && connection?.alive) {
        own.again = false;
        this.#options.onList(await connection.list());
      }
    } catch {
      // The call that meets the trouble says so.
    } finally {
      this.#listing = undefined;
    }
  }

  /** Once: a server that goes away at every call would say the same each time. */
  #warn(lastWords: string): void {
    if (this.#warned) return;
    this.#warned = true;
    const said = lastWords && ` It said last: ${lastWords}`;
    process.emitWarning(`The MCP server "${this.name}" went away. The next call starts it again.${said}`, {
      type: "StatesetWarning",
      code: "MCP_GONE",
    });
  }
}
