/**
 * Any JSON object, so many deep. Without a stack each way down is held by itself, so that every level doubles it; what would multiply
 * that, lengths and numbers of items, is not counted.
 */
import { choice, sequence, text } from "./grammar.ts";
import type { ConstrainLimits } from "./limits.ts";
import type { Grammar } from "./nfa.ts";
import { numberGrammar } from "./number-grammar.ts";
import { colon, comma } from "./schema-grammar.ts";
import { stringGrammar } from "./string-grammar.ts";

export function anyObject({ maxDepth }: ConstrainLimits): Grammar {
  const string = stringGrammar(0, Infinity);
  const scalar = choice(string, numberGrammar({}), "true", "false", "null");
  const value = (depth: number): Grammar =>
    depth === 0 ? scalar : choice(scalar, object(depth), items("[", "]", value(depth - 1)));
  const object = (depth: number) => items("{", "}", sequence(string, colon, value(depth - 1)));
  return object(maxDepth);
}

/** None, or any number of them with commas between. */
function items(open: string, close: string, item: Grammar): Grammar {
  return (nfa, to) => {
    const over = text(close)(nfa, to);
    const again = nfa.place();
    const first = item(nfa, again);
    nfa.beside[again]!.push(over, comma(nfa, first));
    return text(open)(nfa, nfa.either(first, over));
  };
}
