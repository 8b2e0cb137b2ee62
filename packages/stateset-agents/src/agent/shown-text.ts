/** The text of a reply while it is sampled, without the calls in it. */
import type { ChatTokenizer, SampleToken } from "../policy/policy.ts";
import type { CallFormat } from "../tool/format/call-format.ts";
import { type CallEvent, streamCalls } from "../tool/format/stream-calls.ts";

export interface ShownText {
  push(token: SampleToken): void;
  /** When the reply is over and holds no call: what was held back was words. */
  end(): void;
}

export function createShownText(
  format: CallFormat,
  tokenizer: Pick<ChatTokenizer, "decode">,
  emit: (text: string) => void,
): ShownText {
  const calls = streamCalls({ format });
  const show = (events: readonly CallEvent[]) => {
    for (const event of events) if (event.kind === "text") emit(event.text);
  };
  return {
    push({ token, text: piece }) {
      // Special tokens have no text; those that open a call count.
      const printed = piece === "" ? tokenizer.decode([token], { skipSpecial: false }) : piece;
      if (piece !== "" || format.markers.includes(printed.trim())) show(calls.push(printed));
    },
    end: () => show(calls.end()),
  };
}
