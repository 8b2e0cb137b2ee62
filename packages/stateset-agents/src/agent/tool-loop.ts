/** A reply of an agent that acts: sample, run what it calls, tell it the results, sample again, until it answers. */
import { unreadableCalls, withCallsOfAgent } from "../conversation/call-notes.ts";
import type { ToolCall } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { seedOf } from "../random.ts";
import type { ReadTools } from "../tool/read-tools.ts";
import { type RunOptions, resultTurn, runCalls } from "../tool/run-calls.ts";
import type { Reply, ReplyOptions } from "./session.ts";

export interface ToolLoop extends Pick<RunOptions, "approve" | "conversationId" | "cut"> {
  tools: ReadTools["runnable"];
  /** Tools whose calls somebody else answers: the environment. */
  elsewhere: ReadonlySet<string>;
  /** Rounds of calls in one reply at most; calls after that are not run. */
  maxToolSteps: number;
}

type SampleReply = (messages: readonly Turn[], options: ReplyOptions) => Promise<Reply>;

export async function replyWithTools(
  sample: SampleReply,
  messages: readonly Turn[],
  options: ReplyOptions,
  loop: ToolLoop,
): Promise<Reply> {
  const turns: Turn[] = [];
  const run = async (calls: readonly ToolCall[], by: Turn) => {
    const problems = unreadableCalls(by);
    const requested = calls.map((call) => ({ call, ...(call.id in problems && { problem: problems[call.id]! }) }));
    const { approve, conversationId, cut, tools } = loop;
    const { signal } = options;
    const of = { messages: [...messages, ...turns], approve, conversationId, cut, tools, signal };
    const results = (await runCalls(requested, of)).map((outcome) => resultTurn(outcome));
    for (const turn of results) options.onTurn?.(turn);
    turns.push(...results);
  };
  // Where a reply called both, the environment has answered its own calls, and these are left.
  const left = openCalls(messages, loop);
  if (left) await run(left.calls, left.by);
  let sampledTokens = 0;
  for (let step = 0; ; step++) {
    const { seed } = options;
    const own = seed === undefined || step === 0 ? {} : { seed: seedOf(seed, "tool-step", step) };
    const reply = await sample([...messages, ...turns], { ...options, ...own });
    if (reply.kind === "context-full") return { ...reply, turns };
    turns.push(reply.turn);
    sampledTokens += reply.sampledTokens;
    const calls = reply.turn.tool_calls ?? [];
    const others = calls.some((call) => isElsewhere(call, reply.turn, loop));
    if (calls.length === 0 || others || step >= loop.maxToolSteps) {
      const own = calls.filter((call) => !isElsewhere(call, reply.turn, loop)).map(({ id }) => id);
      const turn = withCallsOfAgent(reply.turn, own);
      return { ...reply, turn, turns: [...turns.slice(0, -1), turn], sampledTokens };
    }
    await run(calls, reply.turn);
  }
}

/** Whether the environment answers a call. What cannot be read is answered by whoever runs tools. */
function isElsewhere({ id, function: { name } }: ToolCall, turn: Turn, { tools, elsewhere }: ToolLoop): boolean {
  return elsewhere.has(name) ? !(id in unreadableCalls(turn)) || tools.size === 0 : tools.size === 0;
}

/** Calls of the last reply that nobody has answered, where the conversation ends with answers to others of them. */
function openCalls(messages: readonly Turn[], loop: ToolLoop): { calls: ToolCall[]; by: Turn } | undefined {
  if (messages.at(-1)?.role !== "tool") return undefined;
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const by = messages[at];
  if (!by?.tool_calls) return undefined;
  const answered = new Set(messages.slice(at + 1).map(({ tool_call_id }) => tool_call_id));
  const calls = by.tool_calls.filter((call) => !answered.has(call.id) && !isElsewhere(call, by, loop));
  return calls.length > 0 ? { calls, by } : undefined;
}
