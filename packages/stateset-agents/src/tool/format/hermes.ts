/** Hermes and Qwen: `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`, one or several, after words or alone. */
import { jsonCallRest, opened } from "../constrain/call-grammar.ts";
import { marker, optional, sequence, text } from "../constrain/grammar.ts";
import { beforeMarker, type HeldFormat, objectAfter, type ParsedReply } from "./call-format.ts";
import { endOfJson, readJsonCall, unreadable } from "./read-json-call.ts";

const open = "<tool_call>";
const close = "</tool_call>";

export const hermes: HeldFormat = {
  name: "hermes",
  markers: [open, close],
  parse(text): ParsedReply {
    const first = text.indexOf(open);
    if (first < 0) return { content: text, calls: [] };
    const calls: ParsedReply["calls"] = [];
    let at = first;
    while (at >= 0) {
      const { call, end } = readOne(text, at + open.length);
      calls.push(call);
      at = text.indexOf(open, end);
    }
    return { content: text.slice(0, first).trimEnd(), calls };
  },
  certain: (text) => beforeMarker(text, [open]),
  print: (calls) =>
    calls
      .map((call) => `${open}\n{"name": ${JSON.stringify(call.name)}, "arguments": ${call.arguments}}\n${close}`)
      .join("\n"),
  findCalls: () => (text, at) => {
    const begun = text.indexOf(open, at);
    return begun < 0 ? undefined : objectAfter(text, begun + open.length, /^\s*/);
  },
  grammar(nfa, tools, around) {
    const line = optional("\n");
    const call = sequence(line, '{"name"', jsonCallRest(tools, "arguments"), line, marker(close));
    return { anywhere: opened(nfa, around, text(open), call(nfa, around.words)) };
  },
};

function readOne(text: string, from: number): { call: ParsedReply["calls"][number]; end: number } {
  const start = text.slice(from).search(/\S/);
  const end = start < 0 || text[from + start] !== "{" ? undefined : endOfJson(text, from + start);
  if (end !== undefined) {
    const rest = /^\s*(<\/tool_call>|<tool_call>|$)/.exec(text.slice(end));
    if (rest) return { call: readJsonCall(text.slice(from, end).trim()), end };
  }
  // Not one JSON object: it is over where it says so, or where the next begins, and cannot be read.
  const ends = [text.indexOf(close, from), text.indexOf(open, from), text.length].filter((one) => one >= 0);
  const over = Math.min(...ends);
  const written = text.slice(from, over).trim();
  const problem = over === text.length ? "it ends in the middle" : "it is not one JSON object";
  return { call: unreadable(written, problem), end: over };
}
