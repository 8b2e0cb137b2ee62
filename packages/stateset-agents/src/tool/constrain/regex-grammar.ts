/** Regular expressions as grammar: of words that the model writes, and of the strings that a schema's pattern allows. */
import {
  type CharSet,
  complement,
  lastCodePoint,
  normalised,
  parseRegex,
  type RegexNode,
} from "../schema/regex-syntax.ts";
import { char, choice, repeat, sequence } from "./grammar.ts";
import { type Grammar, type Place, TooLarge } from "./nfa.ts";
import { intersection, quoted, stringChar } from "./string-grammar.ts";
import { unsupported } from "./unsupported.ts";

/** What is matched, from beginning to end. */
export function matching(pattern: string): Grammar {
  return grammarOf(parseRegex(pattern));
}

function grammarOf(node: RegexNode): Grammar {
  switch (node.kind) {
    case "char":
      return char(node.set);
    case "sequence":
      return sequence(...node.parts.map(grammarOf));
    case "choice":
      return choice(...node.options.map(grammarOf));
    case "repeat": {
      const part = grammarOf(node.part);
      if (node.max !== Infinity) return repeat(part, node.min, node.max);
      return sequence(repeat(part, node.min, node.min), (nfa, to) => nfa.loop(part, to));
    }
    default:
      throw new SyntaxError(`${node.kind} is no text`);
  }
}

/** A place in a pattern: what may come next there. */
type Step =
  | { set: CharSet; next: number }
  | { beside: readonly number[] }
  | { at: "start" | "end"; next: number }
  | { match: true };

function readPattern(pattern: string, where: string): RegexNode {
  try {
    return parseRegex(pattern);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const shown = pattern.length > 80 ? `${pattern.slice(0, 80)}…` : pattern;
    throw unsupported(`the pattern ${JSON.stringify(shown)}, since ${error.message}`, where);
  }
}

/** A JSON string of so many characters that holds a match of the pattern. */
export function patternGrammar(pattern: string, min: number, max: number, where: string): Grammar {
  const steps: Step[] = [{ match: true }];
  const start = compile(readPattern(pattern, where), 0, steps, where);
  const classes = partition(steps.flatMap((step) => ("set" in step ? [step.set] : [])));
  // Where it has matched already, anything may follow.
  const matched = "matched";
  type Subset = readonly number[] | typeof matched;
  const closure = (from: Iterable<number>, first: boolean, last: boolean): Subset => {
    const seen = new Set<number>();
    // A match may begin at any place.
    const open = [...from, start];
    while (open.length > 0) {
      const at = open.pop()!;
      if (seen.has(at)) continue;
      seen.add(at);
      const step = steps[at]!;
      if ("match" in step) return matched;
      if ("beside" in step) open.push(...step.beside);
      else if ("at" in step && (step.at === "start" ? first : last)) open.push(step.next);
    }
    return [...seen].sort((a, b) => a - b);
  };
  return quoted((nfa, to) => {
    const known = new Map<string, Place>();
    const build = (from: Subset, before: number): Place => {
      const here = from === matched ? matched : closure(from, before === 0, false);
      nfa.work(1 + (here === matched ? 0 : here.length * classes.length));
      const key = `${before}:${here}`;
      const there = known.get(key);
      if (there !== undefined) return there;
      const over = here === matched || closure(here, before === 0, true) === matched;
      const place = nfa.either(before >= min && over ? to : nfa.dead, before < max ? further(here, before) : nfa.dead);
      known.set(key, place);
      return place;
    };
    const further = (here: Subset, before: number): Place => {
      if (here === matched) return stringChar([[0, lastCodePoint]])(nfa, build(matched, before + 1));
      return nfa.either(
        ...classes.map((set) => {
          const next = here.flatMap((at) => {
            const step = steps[at]!;
            return "set" in step && holds(step.set, set) ? [step.next] : [];
          });
          return stringChar(set)(nfa, build(next, before + 1));
        }),
      );
    };
    return build([], 0);
  });
}

/** The place before `node`, where `next` is the one after it. */
function compile(node: RegexNode, next: number, steps: Step[], where: string): number {
  const add = (step: Step) => {
    if (steps.length > 20_000) throw new SyntaxError("it is too large: its repetitions multiply");
    return steps.push(step) - 1;
  };
  switch (node.kind) {
    case "char":
      return add({ set: node.set, next });
    case "sequence":
      return node.parts.reduceRight((after, part) => compile(part, after, steps, where), next);
    case "choice":
      return add({ beside: node.options.map((option) => compile(option, next, steps, where)) });
    case "repeat": {
      let after = next;
      if (node.max === Infinity) {
        after = add({ beside: [] });
        steps[after] = { beside: [compile(node.part, after, steps, where), next] };
      } else {
        for (let i = node.max; i > node.min; i--) {
          after = add({ beside: [compile(node.part, after, steps, where), next] });
        }
      }
      for (let i = 0; i < node.min; i++) after = compile(node.part, after, steps, where);
      return after;
    }
    case "boundary":
      throw unsupported("pattern with \\b", where);
    default:
      return add({ at: node.kind, next });
  }
}

/** Sets without overlap that all of these are made of, and together with the rest are all characters. */
function partition(sets: readonly CharSet[]): CharSet[] {
  let parts: CharSet[] = [[[0, lastCodePoint]]];
  const distinct = new Map(sets.map((set) => [JSON.stringify(set), set]));
  if (distinct.size > 200) throw new TooLarge("a pattern has more than 200 classes of characters");
  for (const set of distinct.values()) {
    const rest = complement(set);
    parts = parts
      .flatMap((part) => [intersection(part, set), intersection(part, rest)])
      .filter((part) => part.length > 0)
      .map(normalised);
  }
  return parts;
}

/** Whether a part of a partition lies in one of its sets. */
function holds(set: CharSet, part: CharSet): boolean {
  const [point] = part[0]!;
  return set.some(([from, to]) => from <= point && point <= to);
}
