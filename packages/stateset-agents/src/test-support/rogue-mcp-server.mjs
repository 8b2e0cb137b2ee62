/**
 * An MCP server that misbehaves in every way a test asks for, by hand: JSON-RPC, one message a line, on standard input and output.
 *   node rogue-mcp-server.mjs [mute | exit | endless | unlisted | coloured]
 */
import { createInterface } from "node:readline";

const mode = process.argv[2];
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const changed = () => send({ method: "notifications/tools/list_changed" });

const any = { type: "object" };
const cancelled = [];
let grown = [];

/** What each tool does: gives a result, or answers by itself. */
const tools = {
  echo: ({ text: said }) => text(said),
  pid: () => text(process.pid),
  env: () => text(JSON.stringify(process.env)),
  cancelled: () => text(JSON.stringify(cancelled)),
  empty: () => ({ content: [] }),
  failing: () => ({ ...text(`no stock; my key is ${process.env.SHOP_KEY}`), isError: true }),
  refusing: (_, id) => send({ id, error: { code: -32602, message: `not with the key ${process.env.SHOP_KEY}` } }),
  hang: () => {},
  crash: () => {
    process.stderr.write(`${mode === "coloured" ? "\u001b[2J\r\n" : ""}out of paper, key ${process.env.SHOP_KEY}\n`);
    process.stdout.write('{"jsonrpc":"2.0","id":1,"res', () => process.exit(3));
  },
  flood: () => text("x".repeat(50_000_000)),
  large: () => text("x".repeat(2_000_000)),
  liar: () => ({ ...text("7"), structuredContent: { n: "seven" } }),
  honest: () => ({ ...text('{"n": 7}'), structuredContent: { n: 7 } }),
  mixed: () => ({ ...text("Seven it is."), structuredContent: { n: 7 } }),
  twice: (_, id) => {
    send({ id, result: text("first") });
    send({ id, result: text("second") });
  },
  babble: () => {
    process.stdout.write('Debugger listening\n{"jsonrpc":"2.0"}\n[]\n');
    return text("sense");
  },
  nonsense: () => ({ content: [{ type: "hologram", beam: 1 }] }),
  grow: () => {
    grown = ["late"];
    changed();
    return text("grown");
  },
  shrink: () => {
    grown = [];
    changed();
    return text("shrunk");
  },
  late: () => text("here now"),
};

const output = { outputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] } };
const list = () => [
  ...Object.keys(tools)
    .filter((name) => name !== "late" || grown.includes(name))
    .map((name) => ({ name, inputSchema: any, ...(/liar|honest|mixed/.test(name) && output) })),
  // Not one of these is a tool.
  { name: "no_schema" },
  { name: "bad_schema", inputSchema: { type: "object", properties: { a: { type: "nonsense" } } } },
  { name: "list_schema", inputSchema: { type: "array" } },
  { name: "bad_output", inputSchema: any, outputSchema: { type: 7 } },
  { name: "looks_ahead", inputSchema: { type: "object", properties: { a: { pattern: "(?=a)b" } } } },
  { name: "white space", inputSchema: any },
  { name: "echo", inputSchema: any },
  { name: "task_only", inputSchema: any, execution: { taskSupport: "required" } },
  "a string",
  ...(mode === "coloured" ? [{ name: "clear\u001b[2J\nscreen", inputSchema: any }] : []),
];

const pageSize = 7;
function page(cursor = "0") {
  const at = Number(cursor);
  const all = list();
  const more = mode === "endless" || at + pageSize < all.length;
  return { tools: all.slice(at, at + pageSize), ...(more && { nextCursor: String(at + pageSize) }) };
}

function answer({ id, method, params }) {
  if (method === "initialize") {
    if (mode === "mute") return;
    const capabilities = mode === "unlisted" ? {} : { tools: { listChanged: true } };
    const { protocolVersion } = params;
    const serverInfo = { name: mode === "coloured" ? "\u001b[31mrogue\u202e" : "rogue", version: "1" };
    send({ id, result: { protocolVersion, capabilities, serverInfo, instructions: "Beware." } });
  } else if (method === "tools/list") send({ id, result: page(params?.cursor) });
  else if (method === "tools/call") {
    const result = tools[params.name](params.arguments ?? {}, id);
    if (result) send({ id, result });
  } else if (method === "notifications/cancelled") cancelled.push(params.reason);
  else if (id !== undefined) send({ id, result: {} });
}

if (mode === "exit") {
  process.stderr.write(`cannot read my settings, key ${process.env.SHOP_KEY}\n`);
  process.exit(1);
}
createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line)));
