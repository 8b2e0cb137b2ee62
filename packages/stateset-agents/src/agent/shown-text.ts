/** The text of a reply while it is sampled, without the calls in it. */
import type { ChatTokenizer, SampleToken } from "../policy/policy.ts";
import type { CallFormat } from "../tool/format/call-format.ts";

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
  let [text, shown] = ["", 0];
  return {
    push({ token, text: piece }) {
      // Special tokens have no text; those that open a call count.
      const printed = piece === "" ? tokenizer.decode([token], { skipSpecial: false }) : piece;
      text += piece === "" && !format.markers.includes(printed.trim()) ? "" : printed;
      const certain = format.certain(text);
      if (certain > shown) emit(text.slice(shown, certain));
      shown = Math.max(shown, certain);
    },
    end() {
      if (text.length > shown) emit(text.slice(shown));
    },
  };
}
