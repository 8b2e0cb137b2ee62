/** What the grammars of call formats are made of. */
import { choice, marker, sequence, text } from "./grammar.ts";
import { type Grammar, type Nfa, type Place, placeFlags } from "./nfa.ts";
import { type Dialect, json, type SchemaReader, space } from "./schema-grammar.ts";

/** A tool, as far as calls to it are written. */
export interface ToolGrammar {
  name: string;
  /** Its arguments. */
  reader(dialect: Dialect): SchemaReader;
}

/** What stands around the calls of a reply. */
export interface AroundCalls {
  /** Where it goes on after a call: words, and perhaps further calls. */
  words: Place;
  /** Nothing but the end. */
  end: Place;
  /** Whether a call may follow another. */
  several: boolean;
  /** What opens a call is part of free words, all that can be written there, or what must not be written. */
  opening: "free" | "only" | "never";
}

/** Where calls begin: where the reply does, and anywhere in its words. */
export interface CallPlaces {
  start?: Place;
  anywhere?: Place;
}

/** The calls of a format. From its opening on a call is written as the grammar has it. */
export type CallGrammar = (nfa: Nfa, tools: readonly ToolGrammar[], around: AroundCalls) => CallPlaces;

const { free, end, commit, never, aside } = placeFlags;

/** Words that open a call. */
export function opened(nfa: Nfa, around: AroundCalls, words: Grammar, call: Place): Place {
  if (around.opening === "never") return unwritten(nfa, around, words);
  const begun = nfa.place(commit);
  nfa.beside[begun]!.push(call);
  if (around.opening === "only") return nfa.markerBefore(words(nfa, begun));
  return nfa.within(free | end, () => words(nfa, begun));
}

/** Words that would be read as a call that the grammar does not know: they are not written. */
export function unwritten(nfa: Nfa, { opening }: AroundCalls, words: Grammar): Place {
  if (opening === "only") return nfa.dead;
  return nfa.within(opening === "never" ? aside : free | end, () => words(nfa, nfa.place(never)));
}

/** What follows `{"name"` in a call that is a JSON object. */
export function jsonCallRest(tools: readonly ToolGrammar[], key: "arguments" | "parameters"): Grammar {
  const calls = tools.map(({ name, reader }) =>
    sequence(text(JSON.stringify(name)), ",", space, `"${key}":`, space, argumentsOf(name, reader(json).whole()), "}"),
  );
  return sequence(":", space, choice(...calls));
}

/** Mistral's newer form: the name, a mark, the arguments. */
export function namedCall(tools: readonly ToolGrammar[], mark: string): Grammar {
  return choice(
    ...tools.map(({ name, reader }) => sequence(name, marker(mark), argumentsOf(name, reader(json).whole()))),
  );
}

/** A schema that nothing fits is a mistake of the tool's. */
export function argumentsOf(name: string, grammar: Grammar): Grammar {
  return (nfa, to) => {
    const place = grammar(nfa, to);
    if (place === nfa.dead) throw new NothingFits(name);
    return place;
  };
}

/** No arguments within the limits fit a tool's schema. */
export class NothingFits extends Error {}
