/** Which MCP server, and how its tools are to be used. */
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { endpointOf, redactor } from "../../network.ts";
import { longestTimerMs, parseOptions } from "../../options.ts";
import type { Approval } from "../run-calls.ts";

/** A server that is started as a process, and spoken to over its standard input and output. */
export interface McpCommand {
  command: string;
  args?: readonly string[] | undefined;
  /**
   * Variables of its environment. Of those of this process it gets only what starting a program needs: HOME, LOGNAME, PATH, SHELL, TERM
   * and USER (on Windows APPDATA, PATH, SYSTEMROOT, TEMP and their like). A key it needs is named here.
   */
  env?: Readonly<Record<string, string>> | undefined;
  /** Default: where this process is. */
  cwd?: string | undefined;
}

/** A server that is asked over HTTP ("streamable HTTP"). */
export interface McpAddress {
  url: string | URL;
  /** Sent with every request, and never shown. */
  headers?: Readonly<Record<string, string>> | undefined;
}

export type McpServer = McpCommand | McpAddress;

export interface McpOptions {
  /** Put before the name of every tool, such as "shop_": two servers may have tools of one name. Default none. */
  prefix?: string | undefined;
  /** Names of the tools to take, as the server calls them. Default all. */
  only?: readonly string[] | undefined;
  /** Of each call. Default 30,000. */
  timeoutMs?: number | undefined;
  /** How often a call is tried again after it failed. Default 0: it may have done something already. */
  retries?: number | undefined;
  /** Whether the agent's `approve` is asked before a call runs. Default false. */
  needsApproval?: boolean | ((call: Approval) => boolean | Promise<boolean>) | undefined;
  /** How long the server may take to start, or to answer first, and to list its tools. Default 60,000. */
  startTimeoutMs?: number | undefined;
  /** Told when the server's list of tools has changed. An agent keeps the tools it was made with. */
  onChange?: ((tools: McpChange) => void) | undefined;
}

export interface McpChange {
  added: readonly string[];
  removed: readonly string[];
}

const text = z.string().min(1);
const isFunction = (value: unknown) => typeof value === "function";
const isHttp = (value: unknown) => {
  if (typeof value !== "string" && !(value instanceof URL)) return false;
  return URL.canParse(String(value)) && /^https?:$/.test(new URL(value).protocol);
};
const milliseconds = z.number().positive().max(longestTimerMs);

const commandSchema = z.strictObject({
  command: text,
  args: z.array(z.string()).default([]),
  env: z.record(z.string(), z.string()).default({}),
  cwd: text.optional(),
});

const addressSchema = z.strictObject({
  url: z.custom<string | URL>(isHttp, "an address that begins with http:// or https:// was expected"),
  headers: z.record(z.string(), z.string()).default({}),
});

const optionsSchema = z.strictObject({
  prefix: z.string().default(""),
  only: z.array(text).optional(),
  timeoutMs: milliseconds.default(30_000),
  retries: z.int().min(0).default(0),
  needsApproval: z
    .union(
      [z.boolean(), z.custom<Exclude<McpOptions["needsApproval"], boolean | undefined>>(isFunction)],
      "true, false or a function was expected",
    )
    .default(false),
  startTimeoutMs: milliseconds.default(60_000),
  onChange: z.custom<NonNullable<McpOptions["onChange"]>>(isFunction, "a function was expected").optional(),
});

export type ReadOptions = z.output<typeof optionsSchema>;

export type ReadServer = (
  | ({ kind: "command" } & z.output<typeof commandSchema>)
  | { kind: "address"; url: URL; headers: Record<string, string> }
) & {
  /** How it is called in what is said about it. Arguments and queries may hold keys. */
  name: string;
  redact(text: string): string;
};

export function readOptions(options: McpOptions): ReadOptions {
  return parseOptions(optionsSchema, options, "mcpTools");
}

export function readServer(server: McpServer): ReadServer {
  if (typeof server === "object" && server !== null && "url" in server) {
    const { url: address, headers } = parseOptions(addressSchema, server, "mcpTools");
    const url = new URL(address);
    const endpoint = endpointOf(url.href, headers);
    for (const [key, value] of Object.entries(headers)) checkHeader(key, value);
    url.username = "";
    url.password = "";
    const { shown, redact } = endpoint;
    return { kind: "address", url, headers: { ...endpoint.headers, ...headers }, name: shown, redact };
  }
  const command = parseOptions(commandSchema, server, "mcpTools");
  return { kind: "command", ...command, name: command.command, redact: redactor(Object.entries(command.env)) };
}

/** What refuses a header would print its value. */
function checkHeader(key: string, value: string): void {
  try {
    new Headers({ [key]: value });
  } catch {
    throw new StatesetError("INVALID_OPTION", `mcpTools.headers.${key} is no header of HTTP.`, {
      hint: "Names are letters, digits and -, and values are one line of Latin characters.",
    });
  }
}
