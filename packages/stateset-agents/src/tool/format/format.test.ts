import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import { folder } from "../../policy/tokenizer/fixtures/conversations.ts";
import { byteLevelTokenizer, configFor } from "../../policy/tokenizer/fixtures/model-folders.ts";
import { loadChatTokenizer } from "../../policy/tokenizer/load-chat-tokenizer.ts";
import { createRandom } from "../../random.ts";
import { type CallFormatName, callFormatNames, isUnreadable, type WrittenCall } from "./call-format.ts";
import { callFormats, toolsOfTemplate } from "./choose-format.ts";

const call = (name: string, args: unknown): WrittenCall => ({ name, arguments: JSON.stringify(args) });
/** Names, and arguments as values: how JSON is spaced is the model's business. */
const read = (format: CallFormatName, text: string) => {
  const { content, calls } = callFormats[format].parse(text);
  return [
    content,
    ...calls.map((one) =>
      isUnreadable(one) ? `unreadable ${one.name ?? "?"}` : [one.name, JSON.parse(one.arguments)],
    ),
  ];
};

describe("what a reply asks for", () => {
  it.each([
    [
      "hermes",
      'One moment.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>',
      ["One moment.", ["f", { a: 1 }]],
    ],
    [
      "hermes",
      '<tool_call>{"name":"f","arguments":{}}</tool_call>\n<tool_call>{"name":"g"}</tool_call>',
      ["", ["f", {}], ["g", {}]],
    ],
    [
      "hermes",
      '<tool_call>{"name": "f", "arguments": {"t": "</tool_call>"}}</tool_call>',
      ["", ["f", { t: "</tool_call>" }]],
    ],
    ["hermes", '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', ["", ["f", { a: 1 }]]],
    ["hermes", '<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>', ["", ["f", { a: 1 }]]],
    ["hermes", "No calls at all, <tool> or otherwise.", ["No calls at all, <tool> or otherwise."]],
    ["llama3", '{"name": "f", "parameters": {"a": 1}}', ["", ["f", { a: 1 }]]],
    [
      "llama3",
      '{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"b": [1]}}',
      ["", ["f", {}], ["g", { b: [1] }]],
    ],
    ["llama3", 'Sure.<|python_tag|>{"name": "f", "parameters": {}}', ["Sure.", ["f", {}]]],
    ["llama3", '<|python_tag|>search.call(query="a")', ["", ["search", { query: "a" }]]],
    ["llama3", '{"city": "Rome"}', ['{"city": "Rome"}']],
    [
      "mistral",
      '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
      ["", ["f", { a: 1 }], ["g", {}]],
    ],
    [
      "mistral",
      'Wait.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]abc123456[ARGS]{}',
      ["Wait.", ["f", { a: 1 }], ["g", {}]],
    ],
    [
      "mistral",
      '[TOOL_CALLS]f[ARGS]{"a": "[TOOL_CALLS]h"}[TOOL_CALLS]g[ARGS]{}',
      ["", ["f", { a: "[TOOL_CALLS]h" }], ["g", {}]],
    ],
    ["json", 'Let me see.\n```json\n{"name": "f", "arguments": {"a": 1}}\n```', ["Let me see.", ["f", { a: 1 }]]],
    ["json", '```\n[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]\n```', ["", ["f", {}], ["g", {}]]],
    ["json", '```json\n{"total": 3}\n```', ['```json\n{"total": 3}\n```']],
    ["json", '```json\n{"name": "f", "arguments": {"t": "```"}}\n``` and more', ["", ["f", { t: "```" }]]],
    ["pythonic", '[f(a=1, b="x"), g()]', ["", ["f", { a: 1, b: "x" }], ["g", {}]]],
    [
      "pythonic",
      "f(a=[1, 2.5, -3e2], b={'k': None, \"l\": (True, False)})",
      ["", ["f", { a: [1, 2.5, -300], b: { k: null, l: [true, false] } }]],
    ],
    ["pythonic", 'f(t="a \\"b\\" \\n \\u00e9", u=\'it\\\'s\')', ["", ["f", { t: 'a "b" \n é', u: "it's" }]]],
    ["pythonic", "It is f(x) = 3.", ["It is f(x) = 3."]],
  ] as const)("%s: %s", (format, text, wanted) => {
    expect(read(format, text)).toEqual(wanted);
  });

  it.each([
    ["hermes", '<tool_call>{"name": "f", "arguments": {"a": ', "f", "in the middle"],
    ["hermes", "<tool_call>f(a=1)</tool_call>", undefined, "not one JSON object"],
    ["hermes", '<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>', "f", "no JSON"],
    ["hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "f", "no JSON object"],
    ["hermes", '<tool_call>{"name": "f", "name": "g", "arguments": {}}</tool_call>', "f", "twice"],
    ["hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}, "parameters": {"a": 2}}</tool_call>', "f", "twice"],
    ["hermes", '<tool_call>{"arguments": {}}</tool_call>', undefined, "no name"],
    ["hermes", "<tool_call>", undefined, "in the middle"],
    ["llama3", '{"name": "f", "parameters": {"a', "f", "in the middle"],
    ["mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {', "f", "in the middle"],
    ["mistral", "[TOOL_CALLS]f[ARGS]{oops", "f", "no JSON object"],
    ["json", '```json\n{"name": "f", "argu', "f", "in the middle"],
    ["pythonic", "f(1, 2)", "f", "by name"],
    ["pythonic", "f(a=1, a=2)", "f", "twice"],
    ["pythonic", 'f(a="x', "f", "in the middle"],
    ["pythonic", "f(a=open('/etc/passwd'))", "f", "a value was expected"],
  ] as const)("%s cannot be read: %s", (format, text, name, problem) => {
    const { calls } = callFormats[format].parse(text);
    expect(calls).toEqual([expect.objectContaining({ problem: expect.stringContaining(problem) })]);
    expect((calls[0] as { name?: string }).name).toBe(name);
  });
});

describe("every format", () => {
  const awkward = [
    "",
    "plain",
    'quo"te',
    "</tool_call>",
    "[TOOL_CALLS]",
    "```",
    "<|python_tag|>",
    "a\nb",
    "é 👍",
    "\\",
    "]})",
  ];
  it.each(callFormatNames)("%s reads back what it prints, whatever the arguments say", (name) => {
    const format = callFormats[name];
    const random = createRandom(1);
    const value = (depth: number): unknown => {
      const kind = Math.floor(random.next() * (depth > 2 ? 4 : 6));
      if (kind === 0) return awkward[Math.floor(random.next() * awkward.length)];
      if (kind === 1) return Math.round(random.next() * 1e4) / 100;
      if (kind === 2) return random.next() < 0.5;
      if (kind === 3) return null;
      if (kind === 4) return [value(depth + 1), value(depth + 1)];
      return { a: value(depth + 1), "b c": value(depth + 1) };
    };
    for (let i = 0; i < 300; i++) {
      const calls = Array.from({ length: 1 + (i % 3) }, (_, n) => call(`tool_${n}`, { x: value(0), y: value(0) }));
      expect(read(name, format.print(calls)).slice(1)).toEqual(
        calls.map((one) => [one.name, JSON.parse(one.arguments)]),
      );
    }
  });

  it.each(callFormatNames)(
    "%s never shows a part of a call while it streams, and shows all words in the end",
    (name) => {
      const format = callFormats[name];
      const words = name === "llama3" || name === "pythonic" ? "" : "One `moment` < please.\n";
      const text = words + format.print([call("lookup", { id: "4821" }), call("other", {})]);
      for (let at = 0; at <= text.length; at++) {
        expect(format.certain(text.slice(0, at))).toBeLessThanOrEqual(words.length);
      }
      const plain = "It costs 3 < 4, as f said. {Really}";
      expect(format.certain(plain)).toBe(plain.length);
      let shown = 0;
      for (let at = 0; at <= plain.length; at++) {
        const now = format.certain(plain.slice(0, at));
        expect(now).toBeGreaterThanOrEqual(shown);
        shown = now;
      }
    },
  );

  it.each(callFormatNames)("%s survives 2,000 mutated replies", (name) => {
    const format = callFormats[name];
    const random = createRandom(2);
    const pieces = [
      "{",
      "}",
      "[",
      "]",
      '"',
      "\\",
      "<tool_call>",
      "</tool_call>",
      "```",
      "(",
      ")",
      "=",
      ",",
      ":",
      "name",
      "arguments",
      "\n",
      "[ARGS]",
      "[TOOL_CALLS]",
      "<|python_tag|>",
    ];
    const base = `${format.print([call("f", { a: [1, "x"] }), call("g", {})])}`;
    for (let i = 0; i < 2000; i++) {
      let text = base;
      for (let n = 0; n < 1 + (i % 4); n++) {
        const at = Math.floor(random.next() * (text.length + 1));
        const cut = Math.floor(random.next() * 6);
        text = text.slice(0, at) + pieces[Math.floor(random.next() * pieces.length)] + text.slice(at + cut);
      }
      const { content, calls } = format.parse(text);
      expect(text).toContain(content);
      for (const one of calls) {
        if (isUnreadable(one)) expect(one.problem).not.toBe("");
        else expect(Object.getPrototypeOf(JSON.parse(one.arguments))).toBe(Object.prototype);
      }
      expect(format.certain(text)).toBeLessThanOrEqual(text.length);
    }
  });
});

describe("the format of a chat template", () => {
  const turns = "{%- for message in messages %}[{{ message.role }}] {{ message.content }}{% endfor %}";
  const calls = (print: string) =>
    `{%- for message in messages %}{% if message.tool_calls %}{% for call in message.tool_calls %}${print}{% endfor %}{% else %}[{{ message.role }}] {{ message.content }}{% endif %}{% endfor %}`;
  const tools = "{%- if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}";
  const of = async (template: string) =>
    toolsOfTemplate(
      await loadChatTokenizer(
        await folder({
          "tokenizer.json": await byteLevelTokenizer(),
          "tokenizer_config.json": configFor("chatml"),
          "chat_template.jinja": template,
        }),
      ),
    );

  it.each([
    ["hermes", true, tools + calls("<tool_call>{{ call.function | tojson }}</tool_call>")],
    ["mistral", true, tools + calls("[TOOL_CALLS] [{{ call.function | tojson }}]")],
    [
      "llama3",
      true,
      tools + calls('{"name": "{{ call.function.name }}", "parameters": {{ call.function.arguments | tojson }}}'),
    ],
    [
      "pythonic",
      true,
      tools +
        calls(
          "[{{ call.function.name }}({% for k, v in call.function.arguments | items %}{{ k }}={{ v | tojson }}{% endfor %})]",
        ),
    ],
    // What a model is told to write counts where the template prints no calls.
    ["hermes", true, `${tools}{% if tools %}Answer within <tool_call></tool_call>.{% endif %}${turns}`],
    [
      "llama3",
      true,
      `${tools}{% if tools %}Respond as {"name": function name, "parameters": arguments}.{% endif %}${turns}`,
    ],
    ["json", true, tools + turns],
    ["json", false, turns],
    ["hermes", false, calls("<tool_call>{{ call.function | tojson }}</tool_call>")],
  ] as const)("%s, tools shown: %s, by %s", async (format, shown, template) => {
    const told = await of(template);
    expect([told.format.name, told.shown]).toEqual([format, shown]);
  });

  it("is the one of the starter model", async () => {
    const told = toolsOfTemplate(await loadChatTokenizer(starterModelPath));
    expect([told.format.name, told.shown]).toEqual(["hermes", true]);
  });
});
