import { z } from "zod";
import { isReply, type RewardResult, type Turn } from "../../conversation/trajectory.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { type JsonSchema, requireKnownKeywords, schemaProblems } from "./json-schema.ts";

export interface ToolCallOptions extends RewardOptions {
  /** The tool that should be called. */
  tool: string;
  /** A JSON schema its arguments must fit. */
  parameters?: JsonSchema;
  /** Arguments that must have exactly these values. */
  arguments?: Record<string, unknown>;
}

/**
 * Checks the agent's tool calls. Of the best call: 0.25 for naming the right tool, 0.25 for arguments that are JSON, 0.5 for arguments
 * that are right. Divided by the number of calls, so that calling everything does not pay. Reads `tool_calls`, and calls written
 * as `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
 */
export class ToolCallReward extends RewardFunction {
  readonly #tool: string;
  readonly #parameters: JsonSchema | undefined;
  readonly #arguments: Record<string, unknown>;

  constructor(options: ToolCallOptions) {
    const {
      tool,
      parameters,
      arguments: wanted,
      ...rest
    } = parseRewardOptions(options, "ToolCallReward", "toolCall", {
      tool: z.string().min(1),
      parameters: z.record(z.string(), z.unknown()).optional(),
      arguments: z.record(z.string(), z.unknown()).default({}),
    });
    super(rest, { tool, parameters, arguments: wanted });
    if (parameters) requireKnownKeywords(parameters, "ToolCallReward.parameters");
    this.#tool = tool;
    this.#parameters = parameters;
    this.#arguments = wanted;
  }

  override async compute({ turns }: RewardInput): Promise<RewardResult> {
    const calls = turns.flatMap(callsOf).map((call) => this.#judge(call));
    const best = calls.reduce((a, b) => (b.score > a.score ? b : a), { score: 0, problems: ["no tool was called"] });
    const score = best.score / Math.max(1, calls.length);
    return { score, breakdown: { [this.name]: score }, metadata: { calls: calls.length, problems: best.problems } };
  }

  #judge({ name, text }: Call): { score: number; problems: string[] } {
    if (name !== this.#tool) return { score: 0, problems: [`called "${name}", not "${this.#tool}"`] };
    let given: unknown;
    try {
      given = JSON.parse(text);
    } catch {
      return { score: 0.25, problems: ["its arguments are not JSON"] };
    }
    const wanted: JsonSchema = {
      type: "object",
      required: Object.keys(this.#arguments),
      properties: Object.fromEntries(Object.entries(this.#arguments).map(([key, value]) => [key, { const: value }])),
    };
    const problems = [
      ...(this.#parameters ? schemaProblems(given, this.#parameters) : []),
      ...schemaProblems(given, wanted),
    ];
    return { score: problems.length === 0 ? 1 : 0.5, problems };
  }
}

interface Call {
  name: string;
  /** Its arguments, as JSON text. */
  text: string;
}

function callsOf(turn: Turn): Call[] {
  if (!isReply(turn)) return [];
  const { content, tool_calls: calls } = turn;
  if (calls?.length) return calls.map(({ function: { name, arguments: text } }) => ({ name, text }));
  return [...content.matchAll(/<tool_call>\s*([\s\S]*?)\s*(?:<\/tool_call>|$)/g)].map(([, written]) =>
    readCall(written!),
  );
}

function readCall(written: string): Call {
  try {
    const call = JSON.parse(written) as { name?: unknown; arguments?: unknown } | null;
    return { name: String(call?.name), text: JSON.stringify(call?.arguments ?? null) };
  } catch {
    return { name: /"name"\s*:\s*"([^"]*)"/.exec(written)?.[1] ?? "", text: written };
  }
}
