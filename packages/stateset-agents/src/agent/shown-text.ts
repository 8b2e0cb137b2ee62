/** The text of a reply while it is sampled, without the calls in it. */
import type { ChatTokenizer, SampleToken } from "../policy/policy.ts";
import type { CallFormat } from "../tool/format/call-format.ts";
import { streamCalls } from "../tool/format/stream-calls.ts";

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
  const calls = streamCalls({ format, space: true });
  let [text, shown] = ["", 0];
  const show = (words: string) => {
    shown += words.length;
    emit(words);
  };
  return {
    push({ token, text: piece }) {
      // Special tokens have no text; those that open a call count.
      const printed = piece === "" ? tokenizer.decode([token], { skipSpecial: false }) : piece;
      if (piece === "" && !format.markers.includes(printed.trim())) return;
      text += printed;
      for (const event of calls.push(printed)) if (event.kind === "text") show(event.text);
    },
    end() {
      if (text.length > shown) show(text.slice(shown));
    },
  };
}
