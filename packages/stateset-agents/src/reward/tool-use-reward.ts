import { z } from "zod";
import { canonicalJson } from "../canonical-json.ts";
import { resultsOfCalls } from "../conversation/call-results.ts";
import { argumentsOf } from "../conversation/same-calls.ts";
import { isReply, type RewardResult, type Turn } from "../conversation/trajectory.ts";
import { RewardFunction, type RewardInput, type RewardOptions } from "./reward-function.ts";
import { parseRewardOptions } from "./reward-options.ts";

export interface ToolUseOptions extends RewardOptions {
  /** Tools that the task needs, by name, or a function that knows them of a conversation. Default: any one call that works is enough. */
  needed?: readonly string[] | ((conversation: RewardInput) => readonly string[] | undefined);
  /** Taken off for each fault. Default 0.25. */
  penalty?: number;
  /** Calls of a conversation from which on one more is a fault. Default 8. */
  maxCalls?: number;
}

type Needed = NonNullable<ToolUseOptions["needed"]>;

/** What is wrong with a call. */
type Fault = "invalid" | "repeated" | "unneeded" | "refused";

interface Call {
  turn: number;
  name: string;
  /** Its name and arguments. */
  same: string;
  /** The kind of failure; undefined: it worked, or nobody answered it. */
  failure: string | undefined;
  answered: boolean;
  /** The state of the world before and after it, where that is told. */
  before: unknown;
  after: unknown;
}

/** Failures by which a call was no call: what the agent wrote was wrong. */
const invalid: ReadonlySet<string | undefined> = new Set(["unknown_tool", "invalid_json", "invalid_arguments"]);

/**
 * How tools were used: 1 − penalty × faults, at least 0, where every needed tool was called with success, and else 0: paid for half of
 * what is needed, a policy learns to look and never to act. Faults are calls that are invalid; repeated (the same call again, and the
 * state is as it left it); of a tool that is not needed, or too many; or of a tool that was refused (`denied`) before. A conversation
 * that ends without an answer in words scores 0, unless its environment ended it. Nothing that anybody said is read: neither the agent's
 * words nor what tools answered.
 */
export class ToolUseReward extends RewardFunction {
  readonly #needed: Needed | undefined;
  readonly #penalty: number;
  readonly #maxCalls: number;

  constructor(options: ToolUseOptions = {}) {
    const { needed, penalty, maxCalls, ...rest } = parseRewardOptions(options, "ToolUseReward", "toolUse", {
      needed: z
        .union(
          [z.array(z.string().min(1)), z.custom<Needed>((value) => typeof value === "function")],
          "a list of names, or a function, was expected",
        )
        .optional(),
      penalty: z.number().min(0).max(1).default(0.25),
      maxCalls: z.int().min(0).default(8),
    });
    super(rest, { needed, penalty, maxCalls });
    this.#needed = needed;
    this.#penalty = penalty;
    this.#maxCalls = maxCalls;
  }

  override async compute(conversation: RewardInput): Promise<RewardResult> {
    const calls = callsOf(conversation.turns);
    const needed = typeof this.#needed === "function" ? this.#needed(conversation) : this.#needed;
    const worked = new Set(calls.filter((call) => call.answered && call.failure === undefined).map(({ name }) => name));
    const missing = (needed ?? []).filter((name) => !worked.has(name));
    const covered = missing.length === 0 && (needed !== undefined || worked.size > 0);
    const answered = isAnswered(conversation);
    const whole = answered && covered ? 1 : 0;
    const faults = this.#faultsOf(calls, needed);
    // Where more is at fault than there is to lose, each loses its part of it.
    const each = faults.length === 0 ? 0 : (whole * Math.min(1, this.#penalty * faults.length)) / faults.length;
    const turns: Record<number, number> = {};
    for (const { turn } of faults) turns[turn] = (turns[turn] ?? 0) - each;
    const score = Math.max(0, whole - each * faults.length);
    const reasons = [
      ...faults.map(({ turn, name, fault }) => ({ turn, why: `the call of "${name}" is ${words[fault]}` })),
      ...missing.map((name) => ({ why: `"${name}" was needed, and no call of it worked` })),
      ...(!needed && worked.size === 0 ? [{ why: "no call worked" }] : []),
      ...(answered ? [] : [{ why: "it ends without an answer in words" }]),
    ];
    return {
      score,
      breakdown: { [this.name]: score, calls: calls.length, faults: faults.length },
      ...(each > 0 && { turns, turnsInScore: true as const }),
      metadata: { reasons },
    };
  }

  #faultsOf(calls: readonly Call[], needed: readonly string[] | undefined) {
    return calls.flatMap((call, i): { turn: number; name: string; fault: Fault }[] => {
      const { turn, name } = call;
      const before = calls.slice(0, i);
      const fault = invalid.has(call.failure)
        ? "invalid"
        : before.some((other) => other.name === name && other.failure === "denied")
          ? "refused"
          : before.some((other) => repeats(call, other))
            ? "repeated"
            : (needed && !needed.includes(name)) || i >= this.#maxCalls
              ? "unneeded"
              : undefined;
      return fault ? [{ turn, name, fault }] : [];
    });
  }
}

const words: Record<Fault, string> = {
  invalid: "invalid",
  repeated: "made again, and nothing had changed",
  unneeded: "not needed",
  refused: "made after a call of it was refused",
};

/** What got no answer in time may be tried again. */
function repeats(call: Call, earlier: Call): boolean {
  return earlier.same === call.same && earlier.after === call.before && earlier.failure !== "timeout";
}

function callsOf(turns: readonly Turn[]): Call[] {
  let state: unknown;
  return turns.flatMap((turn, i) => {
    if (!isReply(turn) || !turn.tool_calls?.length) {
      state = turn.metadata?.stateHash ?? state;
      return [];
    }
    const results = resultsOfCalls(turns, i);
    return turn.tool_calls.map((call): Call => {
      const result = results.get(call.id);
      const failure = result?.metadata?.toolFailure;
      const before = state;
      state = result?.metadata?.stateHash ?? state;
      return {
        turn: i,
        name: call.function.name,
        same: canonicalJson([call.function.name, argumentsOf(call.function.arguments)]),
        failure: typeof failure === "string" ? failure : undefined,
        answered: result !== undefined,
        before,
        after: state,
      };
    });
  });
}

function isAnswered({ turns, ended }: RewardInput): boolean {
  const last = turns.findLast(isReply);
  if (!last) return false;
  if (last.tool_calls?.length) return ended === "done" && turns.at(-1) !== last;
  return last.content.trim() !== "";
}
