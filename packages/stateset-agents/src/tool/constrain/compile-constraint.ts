/** The tools of a reply and the way it writes calls, as the automaton that keeps them valid. */
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { StatesetError } from "../../error.ts";
import type { ByteAutomaton } from "../../policy/policy.ts";
import type { CallFormat } from "../format/call-format.ts";
import { callGrammar } from "../format/choose-format.ts";
import { determinise } from "./automaton.ts";
import { NothingFits, type ToolGrammar } from "./call-grammar.ts";
import { text } from "./grammar.ts";
import type { ConstrainLimits } from "./limits.ts";
import { Nfa, placeFlags, TooLarge } from "./nfa.ts";
import { SchemaReader } from "./schema-grammar.ts";

export interface ConstraintOptions {
  tools: readonly ToolDefinition[];
  format: CallFormat;
  limits: ConstrainLimits;
  /** What stands before `</think>` is no part of the reply, which begins behind it. */
  reasoning: boolean;
}

export function compileConstraint({ tools, format, limits, reasoning }: ConstraintOptions): ByteAutomaton {
  const { free, end } = placeFlags;
  const nfa = new Nfa();
  const words = nfa.place(free | end);
  nfa.edges[words]!.push({ low: 0, high: 255, to: words });
  const read = tools.map(({ function: { name, parameters = {} } }): ToolGrammar => {
    const schema = { type: "object", ...parameters };
    return { name, reader: (dialect) => new SchemaReader(schema, limits, dialect, `parameters of the tool "${name}"`) };
  });
  try {
    const { start, anywhere } = callGrammar(format)(nfa, read, { words, end: nfa.place(end) });
    if (anywhere !== undefined) nfa.beside[words]!.push(anywhere);
    if (start === undefined) return determinise(nfa, words);
    const begin = nfa.place(free | end);
    nfa.beside[begin]!.push(words, start);
    if (reasoning) nfa.beside[words]!.push(nfa.within(free | end, () => text("</think>")(nfa, begin)));
    return determinise(nfa, begin);
  } catch (error) {
    throw explained(error, tools);
  }
}

function explained(error: unknown, tools: readonly ToolDefinition[]): unknown {
  const names = tools.map((tool) => `"${tool.function.name}"`).join(", ");
  if (error instanceof NothingFits) {
    return new StatesetError("INVALID_OPTION", `constrain finds no arguments that fit the tool "${error.message}".`, {
      hint: "Its schema contradicts itself, or needs to be followed deeper than constrain.maxDepth.",
    });
  }
  // A schema may also be too deep for the language's own stack.
  if (!(error instanceof TooLarge || error instanceof RangeError)) return error;
  return new StatesetError("INVALID_OPTION", `What constrain would have to hold of the tools ${names} is too large.`, {
    hint: "Lower its limits (constrain: { maxLength, maxItems, maxDepth }), or make their schemas simpler: long strings in lists of lists, large enums and patterns multiply.",
  });
}
