/**
 * Runs the calls of one reply, side by side. Each is read and checked before anybody is asked to approve it, and what was approved is what
 * runs. Whatever goes wrong is a result that the model reads, of one named kind; only an abort throws.
 */
import { isAbort, withDeadline } from "../abort.ts";
import type { Message, ToolCall } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { messageOf } from "../error.ts";
import { resultText } from "./result-text.ts";
import type { Tool, ToolContext } from "./tool.ts";

export const toolFailures = [
  "unknown_tool",
  "invalid_json",
  "invalid_arguments",
  "denied",
  "timeout",
  "failed",
  "too_large",
] as const;
export type ToolFailure = (typeof toolFailures)[number];

/** A call as the reply has it. */
export interface RequestedCall {
  call: ToolCall;
  /** Why it cannot be read, where it cannot. */
  problem?: string;
}

export interface ToolOutcome {
  call: ToolCall;
  /** Undefined: it succeeded. */
  failure?: ToolFailure;
  /** For the model. */
  text: string;
}

/** The turn that tells the model. */
export function resultTurn({ call, failure, text }: ToolOutcome, notes: Readonly<Record<string, unknown>> = {}): Turn {
  const metadata = { ...notes, ...(failure !== undefined && { toolFailure: failure }) };
  const about = Object.keys(metadata).length > 0 ? { metadata } : {};
  return { role: "tool", content: text, name: call.function.name, tool_call_id: call.id, ...about };
}

export interface Approval {
  name: string;
  /** A copy: changing it changes nothing. */
  arguments: unknown;
  context: ToolContext;
}

export interface RunOptions {
  // biome-ignore lint/suspicious/noExplicitAny: arguments are of any type, each tool's own.
  tools: ReadonlyMap<string, Tool<any>>;
  /** Anything but `true` refuses. Without it, whatever needs approval is refused. */
  approve?: ((request: Approval) => boolean | Promise<boolean>) | undefined;
  messages: readonly Message[];
  conversationId?: string | undefined;
  signal?: AbortSignal | undefined;
  /** What the model is shown of a long text. */
  cut?: ((text: string) => string) | undefined;
}

/** In the order of the calls. */
export async function runCalls(calls: readonly RequestedCall[], options: RunOptions): Promise<ToolOutcome[]> {
  return Promise.all(calls.map((one) => runOne(one, options)));
}

/** What a tool throws to say of which kind its failure is; anything else it throws is "failed". */
export class Refusal extends Error {
  readonly kind: ToolFailure;
  constructor(kind: ToolFailure, message: string) {
    super(message);
    this.kind = kind;
  }
}

async function runOne({ call, problem }: RequestedCall, options: RunOptions): Promise<ToolOutcome> {
  const { cut = (text: string) => text } = options;
  try {
    if (problem !== undefined) throw new Refusal("invalid_json", `The call cannot be read: ${problem}.`);
    return { call, text: cut(await result(call, options)) };
  } catch (error) {
    if (stopped(error, options)) throw error;
    const kind = error instanceof Refusal ? error.kind : "failed";
    return { call, failure: kind, text: cut(JSON.stringify({ error: kind, message: short(messageOf(error)) })) };
  }
}

async function result(call: ToolCall, options: RunOptions): Promise<string> {
  const { name, arguments: written } = call.function;
  const { tools, signal, messages, conversationId } = options;
  const own = tools.get(name);
  if (!own) throw new Refusal("unknown_tool", `There is no tool "${name}". Tools: ${[...tools.keys()].join(", ")}.`);
  const contextOf = (own: AbortSignal): ToolContext => {
    let copy: readonly Message[] | undefined;
    return {
      ...{ signal: own, callId: call.id, ...(conversationId !== undefined && { conversationId }) },
      // A tool that changes what it is shown changes no conversation. Few look, so few pay.
      get messages() {
        copy ??= structuredClone(messages);
        return copy;
      },
    };
  };
  await allow(own, call, contextOf(signal ?? new AbortController().signal), options);
  const attempt = () =>
    // Read and checked anew from what the model wrote: nobody who was asked can have changed it.
    inTime(own, call, signal, async (deadline) => own.execute(await checked(own, written), contextOf(deadline)));
  for (let left = own.retries; ; left--) {
    try {
      const text = resultText(await attempt());
      if (!text.ok) throw new Refusal(text.kind, `The tool failed: ${text.problem}.`);
      return text.text;
    } catch (error) {
      if (stopped(error, options)) throw error;
      if (left > 0) continue;
      if (error instanceof Refusal) throw error;
      throw new Refusal("failed", `The tool failed: ${messageOf(error)}`);
    }
  }
}

/** Whether the conversation was stopped. A tool may stop work of its own, an agent's for instance: then it failed. */
function stopped(error: unknown, { signal }: Pick<RunOptions, "signal">): boolean {
  return isAbort(error) && signal?.aborted === true;
}

function inTime<T>(
  { timeoutMs }: Pick<Tool, "timeoutMs">,
  { function: { name } }: ToolCall,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => T | Promise<T>,
): Promise<T> {
  const timedOut = () => new Refusal("timeout", `The tool gave no answer within ${timeoutMs} ms.`);
  return withDeadline(work, { timeoutMs, timedOut, signal, during: `during the tool "${name}"` });
}

async function checked<A>(own: Tool<A>, written: string): Promise<A> {
  let given: unknown;
  try {
    given = JSON.parse(written);
  } catch (error) {
    throw new Refusal("invalid_json", `The arguments are no JSON: ${messageOf(error)}`);
  }
  const seen = await own.check(given);
  if (!seen.ok) throw new Refusal("invalid_arguments", `The arguments do not fit: ${seen.problems.join("; ")}.`);
  return seen.value;
}

/** Throws a refusal unless the call may run. What is unclear is refused. */
async function allow<A>(
  own: Tool<A>,
  call: ToolCall,
  context: ToolContext,
  { approve, signal }: RunOptions,
): Promise<void> {
  const { name, arguments: written } = call.function;
  const args = await inTime(own, call, signal, () => checked(own, written));
  const ask = async (question: () => Promise<unknown>) => {
    try {
      return await question();
    } catch (error) {
      if (stopped(error, { signal })) throw error;
      return undefined;
    }
  };
  const { needsApproval } = own;
  const needs =
    typeof needsApproval === "function"
      ? await ask(() => inTime(own, call, signal, () => needsApproval(args, context)))
      : needsApproval;
  if (needs === false) return;
  const request: Approval = { name, arguments: JSON.parse(written), context };
  // However long it takes: a person may be asked.
  const asked = () => withDeadline(() => approve!(request), { signal, during: `before the tool "${name}"` });
  const approved = needs === true && approve !== undefined && (await ask(asked));
  if (approved !== true) throw new Refusal("denied", "The call was not approved.");
}

function short(text: string): string {
  return text.length > 2000 ? `${text.slice(0, 2000)} …` : text;
}
