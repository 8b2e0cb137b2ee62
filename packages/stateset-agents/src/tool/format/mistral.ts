/** Mistral: `[TOOL_CALLS] [{"name": "f", "arguments": {…}}, …]`, and as its newer models write it, `[TOOL_CALLS]f[ARGS]{…}`. */
import { jsonCallRest, namedCall, opened } from "../constrain/call-grammar.ts";
import { marker, sequence, text } from "../constrain/grammar.ts";
import { space } from "../constrain/schema-grammar.ts";
import { beforeMarker, type HeldFormat, objectAfter, type ParsedReply } from "./call-format.ts";
import { endOfJson, readJsonCall, readJsonCalls, unreadable } from "./read-json-call.ts";

const tag = "[TOOL_CALLS]";
const args = "[ARGS]";

export const mistral: HeldFormat = {
  name: "mistral",
  markers: [tag, args, "[CALL_ID]"],
  parse(text): ParsedReply {
    const at = text.indexOf(tag);
    if (at < 0) return { content: text, calls: [] };
    const written = text.slice(at + tag.length).trim();
    const calls = written.startsWith("[") ? readJsonCalls(written.slice(1), /^[\s,]*/, "]") : readNamed(written);
    return { content: text.slice(0, at).trimEnd(), calls };
  },
  certain: (text) => beforeMarker(text, [tag]),
  print: (calls) =>
    `${tag} [${calls.map((call) => `{"name": ${JSON.stringify(call.name)}, "arguments": ${call.arguments}}`).join(", ")}]`,
  findCalls() {
    let listed = false;
    return (text, at) => {
      if (at > 0 && listed) return objectAfter(text, at, /^[\s,]*/);
      const begun = text.indexOf(tag, at);
      if (begun < 0) return undefined;
      const [list] = /^\s*\[/.exec(text.slice(begun + tag.length)) ?? [];
      listed = at === 0 && list !== undefined;
      if (listed) return objectAfter(text, begun + tag.length + list!.length, /^[\s,]*/);
      const [head = "", name] = named.exec(text.slice(begun + tag.length)) ?? [];
      const from = begun + tag.length + head.length;
      return name !== undefined && text[from] === "{" ? { at: from, name } : undefined;
    };
  },
  grammar(nfa, tools, around) {
    const { end, several } = around;
    const again = nfa.place();
    const call = sequence('{"name"', jsonCallRest(tools, "arguments"))(nfa, again);
    nfa.beside[again]!.push(text("]")(nfa, end));
    const further = nfa.place();
    const named = namedCall(tools, args)(nfa, further);
    nfa.beside[further]!.push(end);
    if (several) {
      nfa.beside[again]!.push(sequence(",", space)(nfa, call));
      nfa.beside[further]!.push(marker(tag)(nfa, named));
    }
    const calls = nfa.either(sequence(space, "[")(nfa, call), named);
    return { anywhere: opened(nfa, around, text(tag), calls) };
  },
};

/** A name and what stands between it and its arguments. */
const named = /^\s*([^\s[\]{}]+)\s*(?:\[CALL_ID\][^[\]{}]*)?(?:\[ARGS\])?\s*/;

function readNamed(text: string): ParsedReply["calls"] {
  const calls: ParsedReply["calls"] = [];
  for (let rest: string | undefined = text; rest !== undefined; ) {
    const [head = "", name] = named.exec(rest) ?? [];
    // An argument may spell the tag.
    const end: number = (rest[head.length] === "{" ? endOfJson(rest, head.length) : undefined) ?? head.length;
    const over: number = rest.indexOf(tag, end);
    const one = over < 0 ? rest : rest.slice(0, over);
    calls.push(
      name === undefined ? unreadable(one, "it has no name") : readOne(one, name, one.slice(head.length).trim()),
    );
    rest = over < 0 ? undefined : rest.slice(over + tag.length);
  }
  return calls;
}

function readOne(text: string, name: string, given: string): ParsedReply["calls"][number] {
  const read = readJsonCall(`{"name": ${JSON.stringify(name)}, "arguments": ${given === "" ? "{}" : given}}`);
  return "problem" in read ? unreadable(text, "its arguments are no JSON object", name) : read;
}
