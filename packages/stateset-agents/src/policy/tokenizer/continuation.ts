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
import { foreignText, ownText } from "./traced-text.ts";

export function createContinuation(parts: TailParts) {
  const { codec, print } = parts;
  const findTail = createTailFinder(parts);
  const probe = createTemplateProbe(parts);

  return (chain: ChainState | undefined, messages: readonly Message[], options: RenderOptions = {}): Extension => {
    const reason = whyRestart(chain, messages, options);
    if (reason || !chain?.reply) return restart(messages, options, reason ?? "messages-changed");
    const tail = tailAfter(chain, messages, options);
    if (!tail) return restart(messages, options, "template-rewrote");
    return { kind: "append", tokens: encodeTail(tail, chain.reply) };
  };

  function restart(messages: readonly Message[], options: RenderOptions, reason: ChainStart): Extension {
    return { kind: "restart", tokens: Int32Array.from(codec.encode(print(messages, options))), reason };
  }

  /** What follows the reply that was sampled last; undefined when that is not all that would have to change. */
  function tailAfter(chain: ChainState, messages: readonly Message[], options: RenderOptions): Tail | undefined {
    const at = chain.messages.length;
    const written = chain.messages.some(({ role }, i) => role === "assistant" && !chain.sampled.has(i));
    const reach = probe(options, written);
    if (reach === "never") return undefined;
    const view = windowOf(messages, at);
    const seen = reach === "window" ? attempt(() => findTail(view.messages, view.at, options)) : undefined;
    // What is said here may be the first thing that makes the template measure.
    if (seen && !parts.measures()) return seen;
    const unchanged = attempt(() => isUnchanged(parts, messages, at, chain.sampled, options));
    return unchanged ? findTail(messages, at, options) : undefined;
  }

  /** With the end-of-turn token in front where the policy did not sample one itself. */
  function encodeTail({ end, text }: Tail, reply: SampledReply): Int32Array {
    const ended = reply.ended === "end-token";
    if (end !== undefined) return Int32Array.from(codec.encode(end + text)).subarray(ended ? 1 : 0);
    const before = codec.sign(ended ? ownText(reply.text) : foreignText(reply.text));
    return Int32Array.from(encodeContinuation(codec, before, text));
  }
}
