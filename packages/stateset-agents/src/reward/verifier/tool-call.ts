import { z } from "zod";
import { isReply, type RewardResult, type Turn } from "../../conversation/trajectory.ts";
import { isUnreadable } from "../../tool/format/call-format.ts";
import { hermes } from "../../tool/format/hermes.ts";
import { compileSchema, type JsonSchema, type SchemaCheck } from "../../tool/schema/compile-schema.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";

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
  /** Of the arguments: that they fit the schema, and have the wanted values. */
  readonly #checks: readonly SchemaCheck[];

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
    const values: JsonSchema = {
      type: "object",
      required: Object.keys(wanted),
      properties: Object.fromEntries(Object.entries(wanted).map(([key, value]) => [key, { const: value }])),
    };
    this.#tool = tool;
    this.#checks = [
      ...(parameters ? [compileSchema(parameters, "ToolCallReward.parameters")] : []),
      compileSchema(values, "ToolCallReward.arguments"),
    ];
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
    const problems = this.#checks.flatMap((check) => check(given));
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
  return hermes
    .parse(content)
    .calls.map((written) =>
      isUnreadable(written)
        ? { name: written.name ?? "", text: written.text }
        : { name: written.name, text: written.arguments },
    );
}
