/** Bodies and names that are no request: bombs, keys of prototypes, text that is none, traversal, nested calls, hostile tools. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPolicy } from "../../src/policy/open-policy.ts";
import { folder } from "../../src/policy/tokenizer/fixtures/conversations.ts";
import { byteLevelTokenizer, configFor } from "../../src/policy/tokenizer/fixtures/model-folders.ts";
import { loadChatTokenizer } from "../../src/policy/tokenizer/load-chat-tokenizer.ts";
import { createServer } from "../../src/server/create-server.ts";
import { nameOf, type Route } from "../../src/server/route.ts";
import { temporaryFolder } from "../temporary-folder.ts";
import {
  type Attacked,
  bodiesOf,
  errorOf,
  hasNames,
  modelName,
  openAttacked,
  requestOf,
  routes,
  statusOf,
} from "./attacked-server.ts";

let attacked: Attacked;
let key: string;
beforeAll(async () => {
  attacked = await openAttacked();
  key = await attacked.newKey();
});
afterAll(() => attacked.close());

const taking = routes.filter(({ maxBytes }) => maxBytes > 0).map((route) => [nameOf(route), route] as const);
const chat = routes.find(({ path }) => path === "/v1/chat/completions")!;

const bomb = (open: string, close: string, times: number) => open.repeat(times) + close.repeat(times);

/** As text, with what is wanted: each of them is refused before a route sees it. */
const wrong: Readonly<Record<string, [body: string | Uint8Array, status: number, code: string]>> = {
  nothing: ["", 400, "invalid_json"],
  spaces: [" \n", 400, "invalid_json"],
  "half of it": ['{"model": "starter', 400, "invalid_json"],
  "two of it": ["{}{}", 400, "invalid_json"],
  "arrays in arrays": [bomb("[", "]", 400), 400, "invalid_json"],
  "objects in objects": [bomb('{"a":', "}", 100).replace("}", "1}"), 400, "invalid_json"],
  "65 levels": [`${bomb("[", "]", 65)}`, 400, "invalid_json"],
  "a prototype": ['{"__proto__": {"admin": true}}', 400, "invalid_json"],
  "a prototype that is escaped": ['{"\\u005f_proto__": 1}', 400, "invalid_json"],
  "a constructor, deep": ['{"a": [{"b": {"constructor": {"prototype": 1}}}]}', 400, "invalid_json"],
  "a control character": ['{"a": "\u0001"}', 400, "invalid_json"],
  "what is no UTF-8": [Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]), 400, "invalid_json"],
  "an overlong slash": [
    Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
    400,
    "invalid_json",
  ],
  "UTF-16": [Buffer.from('{"a":1}', "utf16le"), 400, "invalid_json"],
  NaN: ['{"a": NaN}', 400, "invalid_json"],
  "a comment": ['{"a": 1 /* b */}', 400, "invalid_json"],
};

describe.each(taking)("%s", (_, route) => {
  it.each(Object.entries(wrong))("refuses %s", async (_, [body, status, code]) => {
    const response = await attacked.ask(route, { key, body });
    expect([response.status, (await errorOf(response)).code]).toEqual([status, code]);
  });

  it("refuses what is larger than it may be, has more keys, or is wide", async () => {
    const large = await attacked.ask(route, { key, body: `{"a": "${"x".repeat(route.maxBytes)}"}` });
    expect([large.status, (await errorOf(large)).code]).toEqual([413, "body_too_large"]);
    const keys = `{${Array.from({ length: 10_001 }, (_, i) => `"k${i}":1`).join()}}`;
    const many = await attacked.ask(route, { key, body: keys });
    expect([400, 413]).toContain(many.status);
    expect(["invalid_json", "body_too_large"]).toContain((await errorOf(many)).code);
    const wide = await attacked.ask(route, { key, body: `[${"0,".repeat(1_000_000)}0]` });
    expect([400, 413]).toContain(wide.status);
    await errorOf(wide);
  });

  it("takes no other type, and nothing compressed", async () => {
    const body = JSON.stringify(bodiesOf(route)[0]);
    for (const headers of [
      ...[
        "text/plain",
        "text/json",
        "application/jsonp",
        "application/json, text/plain",
        "multipart/form-data",
        "",
      ].map((type) => ({ "content-type": type })),
      ...[
        "application/json; charset=utf-7",
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
      ].map((type) => ({ "content-type": type })),
      ...["gzip", "br", "deflate", "identity, gzip", "GZIP"].map((coding) => ({ "content-encoding": coding })),
    ]) {
      const response = await attacked.ask(route, { key, body, headers: headers as Record<string, string> });
      expect([headers, response.status, (await errorOf(response)).code]).toEqual([
        headers,
        415,
        "unsupported_media_type",
      ]);
    }
    const packed = await attacked.ask(route, { key, body: gzipSync(body), headers: { "content-encoding": "gzip" } });
    expect(packed.status).toBe(415);
  });

  it("takes the last of two keys that are the same, a byte order mark, and numbers beyond all bounds, or refuses them", async () => {
    const body = JSON.stringify(bodiesOf(route)[0]);
    const twice = body.replace("{", body === "{}" ? "{" : '{"model":"another",');
    const fine = [statusOf(route), 400, 422];
    for (const text of [
      twice,
      `\ufeff${body}`,
      body.replace(/:\s*\d+/, ":1e999"),
      body.replace(/:\s*\d+/, `:${"9".repeat(400)}`),
    ]) {
      const response = await attacked.ask(route, { key, body: text });
      expect(fine, text).toContain(response.status);
      await response.text();
    }
  });

  it("refuses a field that nobody knows at once, however long it is, and says little of it", async () => {
    const body = `{"${"y".repeat(Math.min(route.maxBytes, 3_000_000) - 100)}": 1}`;
    const response = await attacked.ask(route, { key, body });
    expect([400, 422]).toContain(response.status);
    expect((await errorOf(response)).message.length).toBeLessThan(1100);
  });
});

describe("names that would be paths", () => {
  const outside = temporaryFolder();
  mkdirSync(join(outside, "inside"));
  writeFileSync(join(outside, "secret"), "canary-4711");
  symlinkSync(join(outside, "secret"), join(outside, "inside", "link"));
  const names = [
    ...[
      "..",
      "../..",
      "%2e%2e",
      "..%2f..%2fetc%2fpasswd",
      "%2e%2e%2f",
      "..%5c..",
      "%252e%252e",
      ".",
      "~",
      "/etc/passwd",
    ],
    ...["%00", "starter%00", "starter%00.json", "starter/..", "starter%20", "STARTER", "%ff", "%E0%A4%A", "%"],
    ...["file:///etc/passwd", "http://169.254.169.254/", "constructor", "__proto__", "toString", "a".repeat(65_536)],
    ...[
      join(outside, "inside", "link"),
      encodeURIComponent(join(outside, "inside", "link")),
      encodeURIComponent(outside),
    ],
  ];

  it.each(routes.filter(hasNames).map((route) => [nameOf(route), route] as const))("%s", async (_, route) => {
    for (const name of names) {
      const request = requestOf(route, { key, name, body: bodiesOf(route)[0] });
      // Some lead to another route of the dashboard before they are sent.
      if (route.path.startsWith("/ui/") && depthOf(new URL(request.url).pathname) < depthOf(route.path)) continue;
      const response = await attacked.server.fetch(request);
      // Some of them end the path, or are another one.
      expect([404, 405], name).toContain(response.status);
      const text = await response.text();
      expect(text).not.toContain("canary-4711");
      expect(text.length).toBeLessThan(1100);
    }
  });

  it.each(taking.filter(([, route]) => "model" in bodiesOf(route)[0]!))("%s in its body", async (_, route) => {
    for (const model of [...names.map(safeDecode), "starter\0", "starter\r\nx: y", "\ud800"]) {
      const response = await attacked.ask(route, { key, body: { ...bodiesOf(route)[0], model } });
      expect([response.status, (await errorOf(response)).code], model).toEqual([404, "model_not_found"]);
    }
    for (const model of ["", null, 1, [], ["starter"], { name: "starter" }, true]) {
      const response = await attacked.ask(route, { key, body: { ...bodiesOf(route)[0], model } });
      expect(response.status).toBe(400);
      await errorOf(response);
    }
  });
});

const depthOf = (path: string) => path.split("/").length;

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

describe("a conversation", () => {
  const say = async (over: object, status?: number) => {
    const response = await attacked.ask(chat, { key, body: { model: modelName, max_tokens: 1, ...over } });
    const text = await response.text();
    expect(status === undefined ? [200, 400] : [status], text).toContain(response.status);
    expect(text).not.toContain("internal_error");
    return text;
  };
  const values = [
    null,
    "",
    "a",
    "\0",
    "a\ud800b",
    0,
    true,
    [],
    [null],
    [{}],
    [{ type: "text" }],
    [{ type: "text", text: "a" }],
    {},
    [[]],
  ];

  it("of any role, with anything in any field, is answered or refused", async () => {
    for (const role of [
      "system",
      "developer",
      "user",
      "assistant",
      "tool",
      "function",
      "System",
      "",
      null,
      1,
      ["user"],
    ]) {
      for (const value of values) {
        await say({
          messages: [
            { role, content: value },
            { role: "user", content: "a" },
          ],
        });
        await say({
          messages: [
            { role: "user", content: "a" },
            { role, content: "a", tool_calls: value, name: value, tool_call_id: value },
          ],
        });
      }
    }
    for (const messages of [[], [null], [[]], ["a"], {}, null, "a", [{}], [{ role: "user" }]])
      await say({ messages }, 400);
  });

  it("that is too long is refused before tokens are made of it", async () => {
    for (const text of ["1".repeat(4_000_000), "<|im_start|>".repeat(300_000), "🙂".repeat(900_000)]) {
      const said = await say({ messages: [{ role: "user", content: text }] }, 400);
      expect(said).toMatch(/1024 tokens, and \\"messages\\" has \d+ characters, of which 65536 would be read/);
    }
    const description = "a ".repeat(100_000);
    await say(
      {
        messages: [{ role: "user", content: "a" }],
        tools: [{ type: "function", function: { name: "f", description } }],
      },
      400,
    );
  });

  it.each([
    ["/v1/completions", "prompt", (text: string) => text],
    ["/v1/completions", "prompt.1", (text: string) => ["a", text]],
    ["/v1/embeddings", "input", (text: string) => text],
    ["/tokenize", "prompt", (text: string) => text],
    ["/tokenize", "messages", (text: string) => [{ role: "user", content: text }]],
  ])("of %s, in %s, too", async (path, param, given) => {
    const body = { model: modelName, [param.split(".")[0]!]: given("1".repeat(100_000)) };
    const error = await errorOf(await attacked.ask({ method: "POST", path }, { key, body }));
    expect(error).toMatchObject({ code: "context_length_exceeded", param });
    expect(error.message).toMatch(/has \d+ characters, of which 65536 would be read/);
  });

  it.each([
    ["/v1/completions", "prompt"],
    ["/v1/embeddings", "input"],
    ["/detokenize", "tokens"],
  ])("of %s in more tokens than any context holds is refused before it is spelt", async (path, param) => {
    const body = { model: modelName, [param]: Array.from({ length: 100_000 }, (_, i) => i % 100) };
    const error = await errorOf(await attacked.ask({ method: "POST", path }, { key, body }));
    expect(error).toMatchObject({ code: "context_length_exceeded", param });
    expect(error.message).toContain("1024 tokens, and the text takes 100000");
  });

  it("with hostile tools and schemas is answered or refused", async () => {
    const messages = [{ role: "user", content: "a" }];
    const schemas = [
      ...[
        { type: "nonsense" },
        { properties: 5 },
        { $ref: "#" },
        { $ref: "file:///etc/passwd" },
        { $ref: "http://169.254.169.254/" },
      ],
      ...[
        { type: "string", pattern: "(a+)+$" },
        { type: "string", pattern: "((a{1,999}){1,999}){1,999}" },
        { type: "string", pattern: "[" },
      ],
      ...[
        { enum: [] },
        { enum: Array.from({ length: 5000 }, (_, i) => `v${i}`) },
        { allOf: [{ type: "string" }, { type: "number" }] },
        { not: {} },
      ],
      ...[
        { type: "object", required: ["toString"], properties: { toString: {} } },
        { type: "array", minItems: 1e9, items: {} },
      ],
      ...[
        { type: "integer", minimum: -1e300, maximum: 1e300 },
        { type: "string", minLength: 1e9 },
        { format: "x".repeat(1000) },
      ],
    ];
    for (const [i, schema] of schemas.entries()) {
      await say({ messages, response_format: { type: "json_schema", json_schema: { name: "a", schema } } });
      await say({ messages, tools: [{ type: "function", function: { name: "f", parameters: schema } }] });
      if (i % 4 === 0)
        await say({
          messages,
          tool_choice: "required",
          tools: [{ type: "function", function: { name: "f", parameters: schema } }],
        });
    }
    for (const name of ["", "a b", "a\0", "../x", "<|im_end|>", "é", "x".repeat(65), "a\nb", null, 1])
      await say({ messages, tools: [{ type: "function", function: { name } }] }, 400);
  });
});

describe("arguments of a call that are nested deep", () => {
  const times = 100_000;
  const deep = [
    bomb("[", "]", times),
    bomb('{"a":', "}", times).replace("}", "1}"),
    "[".repeat(times),
    bomb('{"a":[', "]}", times / 2),
  ];
  const messages = (args: string) => [
    { role: "user", content: "a" },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: args } }],
    },
    { role: "tool", content: "b", tool_call_id: "a" },
  ];

  // The starter's prints them as they are; this one goes into them.
  const goesIn =
    "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}{% if c.function.arguments is mapping %}" +
    "{% for k, v in c.function.arguments | items %}{{ k }}{{ v | tojson }}{% endfor %}{% endif %}" +
    "{{ c.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}";

  it.each(["as the starter prints them", "as a template that goes into them does"])("are text, %s", async (which) => {
    const files = { "chat_template.jinja": goesIn, "tokenizer_config.json": configFor("mistral") };
    const tokenizer = await loadChatTokenizer(await folder({ "tokenizer.json": await byteLevelTokenizer(), ...files }));
    const stub = await openPolicy({ model: "stub://m" });
    const { vocabSize, endTokens } = tokenizer;
    const model = { ...stub.model, stub: false, vocabSize, endTokens, contextLength: 1 << 21 };
    const sampling = async () => {
      const tokens = Int32Array.from([endTokens[0]!]);
      return [{ tokens, logprobs: new Float32Array(1), text: "", finishReason: "stop", version: "v" } as const];
    };
    const own = which.startsWith("as the") ? attacked.policy : { ...stub, tokenizer, model, sample: sampling };
    const server = await createServer({ models: { [modelName]: own } });
    for (const args of deep) {
      const route: Pick<Route, "method" | "path"> = chat;
      const body = { model: modelName, messages: messages(args), max_tokens: 1 };
      for (const again of [1, 2]) {
        const response = await server.fetch(requestOf(route, { body }));
        const text = await response.text();
        expect(response.status, `${again} ${text.slice(0, 300)}`).toBe(own === attacked.policy ? 400 : 200);
      }
    }
    await server.close();
  });
});

it("after all of this nothing runs and nothing waits", async () => {
  expect(attacked.policy.stats()).toMatchObject({ running: 0, waiting: 0, failed: false });
});
