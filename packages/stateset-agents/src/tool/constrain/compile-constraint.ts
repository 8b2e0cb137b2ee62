/** What a reply may be (its calls of tools, its answer) as the automaton that keeps it so. */
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { StatesetError } from "../../error.ts";
import type { ByteAutomaton } from "../../policy/policy.ts";
import { didYouMean } from "../../suggest.ts";
import { type CallFormat, requireNames } from "../format/call-format.ts";
import { callGrammar } from "../format/choose-format.ts";
import type { JsonSchema } from "../schema/compile-schema.ts";
import { answerGrammar } from "./answer-grammar.ts";
import { determinise } from "./automaton.ts";
import { NothingFits, type ToolGrammar } from "./call-grammar.ts";
import { optional, text } from "./grammar.ts";
import type { ConstrainLimits } from "./limits.ts";
import { Nfa, type Place, placeFlags, TooLarge } from "./nfa.ts";
import { SchemaReader } from "./schema-grammar.ts";
import { thoughts } from "./thoughts.ts";

export interface ConstraintOptions {
  tools: readonly ToolDefinition[];
  /** How calls are written. May be left out where there are no tools. */
  format?: CallFormat | undefined;
  limits: ConstrainLimits;
  /** What stands before `</think>` is no part of the reply, which begins behind it. */
  reasoning: boolean;
  /** "auto": words, and calls where the model wants them (the default). "required": calls alone; with a name, of that tool. */
  choice?: ToolChoice | undefined;
  /** Whether there may be several calls. Default true; false: the reply ends after the first. */
  parallel?: boolean | undefined;
  /** What the words must be: one JSON value of a schema, or any JSON object. Beside tools the reply is either calls or that. */
  answer?: { schema: JsonSchema | true } | undefined;
}

export type ToolChoice = "auto" | "required" | { name: string };

export function compileConstraint(options: ConstraintOptions): ByteAutomaton {
  const { choice = "auto", answer, format } = options;
  const tools = chosen(options.tools, choice);
  if (format) requireNames(format, tools);
  else if (tools.length > 0 || !answer) {
    throw new StatesetError("INVALID_OPTION", "constrain needs to know in which format calls are written.");
  }
  try {
    const nfa = new Nfa();
    const own = { ...options, tools };
    return determinise(nfa, choice === "auto" && !answer ? freeReply(nfa, own) : heldReply(nfa, own));
  } catch (error) {
    throw explained(error, tools);
  }
}

/** The tools that may be called. */
function chosen(tools: readonly ToolDefinition[], choice: ToolChoice): readonly ToolDefinition[] {
  if (choice === "auto") return tools;
  if (tools.length === 0) {
    throw new StatesetError("INVALID_OPTION", "A call is required, and there are no tools.", {
      hint: "Give tools, or leave the choice to the model.",
    });
  }
  if (choice === "required") return tools;
  const own = tools.filter((tool) => tool.function.name === choice.name);
  if (own.length > 0) return own;
  const names = tools.map((tool) => tool.function.name);
  throw new StatesetError("INVALID_OPTION", `A call of the tool "${choice.name}" is required, which is not there.`, {
    hint: didYouMean(choice.name, names),
  });
}

const { free, end } = placeFlags;

/** Words as the model likes, and calls that are valid once they are opened. */
function freeReply(nfa: Nfa, options: ConstraintOptions): Place {
  const { format, parallel = true, reasoning } = options;
  const words = nfa.place(free | end);
  nfa.edges[words]!.push({ low: 0, high: 255, to: words });
  const over = nfa.place(end);
  const around = { words: parallel ? words : over, end: over, several: parallel, opening: "free" } as const;
  const { start, anywhere } = callGrammar(format!)(nfa, read(options), around);
  if (anywhere !== undefined) nfa.beside[words]!.push(anywhere);
  if (start === undefined) return words;
  const begin = nfa.place(free | end);
  nfa.beside[begin]!.push(words, start);
  if (reasoning) nfa.beside[words]!.push(nfa.within(free | end, () => text("</think>")(nfa, begin)));
  return begin;
}

/** Calls, or the answer, and nothing else. */
function heldReply(nfa: Nfa, options: ConstraintOptions): Place {
  const { tools, format, choice = "auto", answer, limits, reasoning } = options;
  const calls = tools.length > 0 ? callsAlone(nfa, options) : nfa.dead;
  const beside = tools.length > 0 ? format : undefined;
  const value = answer && choice === "auto" ? answerGrammar(nfa, answer.schema, limits, beside) : nfa.dead;
  const begin = nfa.either(calls, value);
  return reasoning ? thoughts(nfa, begin) : begin;
}

function callsAlone(nfa: Nfa, options: ConstraintOptions): Place {
  const { format, parallel = true } = options;
  const after = nfa.place(end);
  const around = { words: after, end: nfa.place(end), several: parallel, opening: "only" } as const;
  const { start = nfa.dead, anywhere = nfa.dead } = callGrammar(format!)(nfa, read(options), around);
  if (parallel && anywhere !== nfa.dead) nfa.beside[after]!.push(optional("\n")(nfa, anywhere));
  return nfa.either(start, anywhere);
}

function read({ tools, limits }: ConstraintOptions): ToolGrammar[] {
  return tools.map(({ function: { name, parameters = {} } }) => {
    const schema = { type: "object", ...parameters };
    return { name, reader: (dialect) => new SchemaReader(schema, limits, dialect, `parameters of the tool "${name}"`) };
  });
}

function explained(error: unknown, tools: readonly ToolDefinition[]): unknown {
  if (error instanceof NothingFits) {
    const what =
      error.message === ""
        ? "nothing that fits the answer's schema"
        : `no arguments that fit the tool "${error.message}"`;
    return new StatesetError("INVALID_OPTION", `constrain finds ${what}.`, {
      hint: "Its schema contradicts itself, or needs to be followed deeper than constrain.maxDepth.",
    });
  }
  // A schema may also be too deep for the language's own stack.
  if (!(error instanceof TooLarge || error instanceof RangeError)) return error;
  const names = tools.map((tool) => `"${tool.function.name}"`).join(", ");
  const whose = tools.length > 0 ? `the tools ${names}` : "the answer's schema";
  const limit = error instanceof TooLarge ? error.message : "it is nested too deeply";
  return new StatesetError("INVALID_OPTION", `What constrain would have to hold of ${whose} is too large: ${limit}.`, {
    hint: "Lower its limits (constrain: { maxLength, maxItems, maxDepth }), or make the schemas simpler: long strings in lists of lists, large enums and patterns multiply.",
  });
}
