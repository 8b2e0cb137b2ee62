/**
 * The prompt after a reply: only what the template prints after the last sampled token is new. Rendering the whole conversation
 * for that would cost more with every turn, so a short window of it is rendered, where the template is known to print the same
 * after a reply whatever came before (see template-probe.ts). Otherwise the whole conversation is, and compared.
 */
import type { ChainState, SampledReply } from "../../conversation/chain.ts";
import { whyRestart } from "../../conversation/continues.ts";
import type { Message } from "../../conversation/message.ts";
import type { ChainStart } from "../../conversation/trajectory.ts";
import type { Extension, RenderOptions } from "../policy.ts";
import { encodeContinuation } from "./codec.ts";
import { attempt, createTailFinder, isUnchanged, type Tail, type TailParts } from "./reply-tail.ts";
import { createTemplateProbe, windowOf } from "./template-probe.ts";

export function createContinuation(parts: TailParts) {
  const { codec, print, mark } = parts;
  const findTail = createTailFinder(parts);
  const findExactTail = (
    messages: readonly Message[],
    at: number,
    sampled: ReadonlySet<number>,
    options: RenderOptions,
  ) => (isUnchanged(print, messages, at, sampled, options) ? findTail(messages, at, options) : undefined);
  const probe = createTemplateProbe(findTail, findExactTail);

  return (chain: ChainState | undefined, messages: readonly Message[], options: RenderOptions = {}): Extension => {
    const restart = (reason: ChainStart): Extension => {
      return { kind: "restart", tokens: Int32Array.from(codec.encode(print(messages, options))), reason };
    };
    const reason = whyRestart(chain, messages, options);
    if (reason || !chain?.reply) return restart(reason ?? "messages-changed");
    const at = chain.messages.length;
    const written = chain.messages.some(({ role }, i) => role === "assistant" && !chain.sampled.has(i));
    const view = windowOf(messages, at);
    const quick = probe(options, written) ? attempt(() => findTail(view.messages, view.at, options)) : undefined;
    const tail = quick ?? attempt(() => findExactTail(messages, at, chain.sampled, options));
    return tail ? { kind: "append", tokens: encodeTail(tail, chain.reply) } : restart("template-rewrote");
  };

  /** With the end-of-turn token in front where the policy did not sample one itself. */
  function encodeTail({ end, text }: Tail, reply: SampledReply): Int32Array {
    if (end !== undefined) return Int32Array.from(codec.encode(end + text)).subarray(reply.ended ? 1 : 0);
    return Int32Array.from(encodeContinuation(codec, reply.ended ? reply.text : mark(reply.text), text));
  }
}
