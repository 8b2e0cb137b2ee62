/**
 * A JSON object, or a list of them, in a fence of three backticks: for templates that say nothing of tools. A fence that holds
 * anything else is part of the words.
 */
import { jsonCallRest, opened, unwritten } from "../constrain/call-grammar.ts";
import { optional, sequence } from "../constrain/grammar.ts";
import { matching } from "../constrain/regex-grammar.ts";
import { space } from "../constrain/schema-grammar.ts";
import { type HeldFormat, objectAfter, type ParsedReply } from "./call-format.ts";
import { endOfJson, looksLikeCall, readJsonCall, readJsonCalls, unreadable } from "./read-json-call.ts";

const fence = "```";
/** What may stand behind the backticks. */
const before = "```[ \\t]*(?:json|tool_call|tool)?[ \\t]*\\r?\\n?\\s*";
const opening = new RegExp(`${before}(?=[[{])`, "g");

export const jsonFence: HeldFormat = {
  name: "json",
  markers: [],
  parse(text): ParsedReply {
    const calls: ParsedReply["calls"] = [];
    let first: number | undefined;
    let end = 0;
    for (const match of text.matchAll(opening)) {
      if (match.index < end) continue;
      const from = match.index + match[0].length;
      const read = readFence(text, from);
      if (!read) continue;
      first ??= match.index;
      calls.push(...read.calls);
      end = read.end;
    }
    return first === undefined ? { content: text, calls } : { content: text.slice(0, first).trimEnd(), calls };
  },
  certain(text) {
    // What ends a fence may also begin one.
    for (let at = text.indexOf(fence); at >= 0; at = text.indexOf(fence, at + 1)) {
      if (mayOpen(text.slice(at + fence.length))) return at;
    }
    const [tail] = /`{0,2}$/.exec(text)!;
    return text.length - tail.length;
  },
  print: (calls) =>
    calls
      .map((call) => `${fence}json\n{"name": ${JSON.stringify(call.name)}, "arguments": ${call.arguments}}\n${fence}`)
      .join("\n"),
  findCalls() {
    let listed = false;
    return (text, at) => {
      const next = listed ? objectAfter(text, at, /^[\s,]*/) : undefined;
      // Until its list is closed no other fence begins.
      if (next || (listed && !/^[\s,]*\]/.test(text.slice(at)))) return next;
      const over = listed || at > 0 ? text.indexOf(fence, at) + fence.length : 0;
      if (over === fence.length - 1) return undefined;
      for (const match of text.slice(over).matchAll(opening)) {
        const from = over + match.index + match[0].length;
        const list = text[from] === "[";
        if (!looksLikeCall(text.slice(list ? from + 1 : from))) continue;
        listed = list;
        return objectAfter(text, list ? from + 1 : from, /^\s*/);
      }
      return undefined;
    };
  },
  grammar(nfa, tools, around) {
    const { words, several, opening } = around;
    // Quotes within strings of JSON are escaped, so that no fence there holds a call.
    if (opening === "never") return {};
    const rest = jsonCallRest(tools, "arguments");
    const close = sequence(optional("\n"), fence);
    const again = nfa.place();
    const inList = rest(nfa, again);
    nfa.beside[again]!.push(sequence("]", close)(nfa, words));
    if (several) nfa.beside[again]!.push(sequence(",", space, '{"name"')(nfa, inList));
    const others = '\\[?\\s*\\{\\s*"(?:name|arguments|parameters)"\\s*:';
    return {
      anywhere: nfa.either(
        opened(nfa, around, matching(`${before}\\{[ \\t\\r\\n]*"name"`), sequence(rest, close)(nfa, words)),
        opened(nfa, around, matching(`${before}\\[\\s*\\{[ \\t\\r\\n]*"name"`), inList),
        unwritten(nfa, around, matching(before + others)),
      ),
    };
  },
};

/** Whether what stands behind three backticks is, or may become, a call. */
function mayOpen(text: string): boolean {
  const word = text.trimStart();
  if (["json", "tool_call"].some((one) => one.startsWith(word))) return true;
  const [before] = /^[ \t]*(?:json|tool_call|tool)?\s*/.exec(text)!;
  const rest = text.slice(before.length).replace(/^\[\s*/, "");
  return looksLikeCall(rest) || /^(?:\{\s*(?:"[a-z]*"?\s*)?)?$/.test(rest);
}

function readFence(text: string, from: number): { calls: ParsedReply["calls"]; end: number } | undefined {
  const list = text[from] === "[";
  const starts = list ? text.slice(from + 1) : text.slice(from);
  if (!looksLikeCall(starts)) return undefined;
  const end = endOfJson(text, from);
  if (end === undefined) {
    const over = text.indexOf(fence, from);
    const written = text.slice(from, over < 0 ? undefined : over).trim();
    const problem = over < 0 ? "it ends in the middle" : "it is no JSON";
    return { calls: [unreadable(written, problem)], end: over < 0 ? text.length : over + fence.length };
  }
  const close = text.indexOf(fence, end);
  const written = text.slice(from, end);
  const calls = list ? readJsonCalls(written.slice(1), /^[\s,]*/, "]") : [readJsonCall(written)];
  return { calls, end: close < 0 ? text.length : close + fence.length };
}
