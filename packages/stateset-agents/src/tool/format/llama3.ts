/**
 * Llama 3: a reply that is `{"name": "f", "parameters": {…}}`, several behind one another with `;` between them, or anything of that
 * after `<|python_tag|>`. The calls of built-in tools, `search.call(query="x")`, come after that tag too.
 */
import { jsonCallRest, opened, unwritten } from "../constrain/call-grammar.ts";
import { choice, optional, sequence, text } from "../constrain/grammar.ts";
import { matching } from "../constrain/regex-grammar.ts";
import { space } from "../constrain/schema-grammar.ts";
import { beforeMarker, type HeldFormat, objectAfter, type ParsedReply } from "./call-format.ts";
import { readPythonCalls } from "./pythonic.ts";
import { looksLikeCall, readJsonCalls } from "./read-json-call.ts";

const tag = "<|python_tag|>";

export const llama3: HeldFormat = {
  name: "llama3",
  markers: [tag],
  parse(text): ParsedReply {
    // First, because an argument may spell the tag.
    if (looksLikeCall(text)) return { content: "", calls: readAll(text.trim()) };
    const at = text.indexOf(tag);
    if (at < 0) return { content: text, calls: [] };
    const written = text.slice(at + tag.length).trim();
    const calls = written.startsWith("{") ? readAll(written) : readPythonCalls(written.replaceAll(tag, ";"));
    return { content: text.slice(0, at).trimEnd(), calls };
  },
  certain(text) {
    const start = text.trimStart();
    // Until it is known not to be a call.
    if (start === "" || (start.startsWith("{") && mayBeCall(start))) return 0;
    return beforeMarker(text, [tag]);
  },
  print: (calls) =>
    calls.map((call) => `{"name": ${JSON.stringify(call.name)}, "parameters": ${call.arguments}}`).join("; "),
  findCalls: () => (text, at) => {
    if (at > 0) return objectAfter(text, at, between);
    if (looksLikeCall(text)) return objectAfter(text, 0, /^\s*/);
    const begun = text.indexOf(tag);
    return begun < 0 ? undefined : objectAfter(text, begun + tag.length, /^\s*/);
  },
  grammar(nfa, tools, around) {
    const again = nfa.place();
    const rest = jsonCallRest(tools, "parameters")(nfa, again);
    const call = text('{"name"')(nfa, rest);
    nfa.beside[again]!.push(around.end);
    if (around.several) nfa.beside[again]!.push(sequence(";", space)(nfa, call));
    const others = matching('\\s*\\{\\s*"(?:name|arguments|parameters)"\\s*:');
    return {
      start: nfa.either(
        opened(nfa, around, matching('\\s*\\{[ \\t\\r\\n]*"name"'), rest),
        unwritten(nfa, around, others),
      ),
      anywhere: opened(nfa, around, text(tag), optional(choice("\n", " "))(nfa, call)),
    };
  },
};

function mayBeCall(start: string): boolean {
  return looksLikeCall(start) || /^\{\s*(?:"[a-z]*"?\s*)?$/.test(start);
}

const between = /^(?:\s|;|,|<\|python_tag\|>)*/;

function readAll(text: string): ParsedReply["calls"] {
  return readJsonCalls(text, between);
}
