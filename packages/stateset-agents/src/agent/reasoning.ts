const open = "<think>";
const close = "</think>";

/**
 * Splits a reply into what the model thought and what it answered. Templates that open the thought themselves make replies that
 * only close it; a thought that was cut off by the token limit has no answer.
 */
export function splitReasoning(text: string): { reasoning?: string; content: string } {
  const start = text.trimStart();
  const end = text.indexOf(close);
  if (end < 0) {
    return start.startsWith(open) ? { reasoning: start.slice(open.length).trim(), content: "" } : { content: text };
  }
  const thought = text.slice(0, end).trimStart();
  const reasoning = (thought.startsWith(open) ? thought.slice(open.length) : thought).trim();
  const content = text.slice(end + close.length).trimStart();
  return reasoning === "" ? { content } : { reasoning, content };
}

/** Passes on only the answer of a streamed reply. Text is held back while it could still be the start of a thought. */
export function answerOnly(emit: (text: string) => void): { push(text: string): void; end(): void } {
  let held = "";
  let phase: "start" | "thinking" | "gap" | "answer" = "start";
  const answer = (text: string) => {
    if (text !== "") emit(text);
  };
  const push = (text: string) => {
    if (phase === "answer") return answer(text);
    held += text;
    if (phase === "start") {
      const begun = held.trimStart();
      if (begun.startsWith(open)) phase = "thinking";
      else if (!open.startsWith(begun)) {
        phase = "answer";
        return answer(held);
      }
    }
    if (phase === "thinking") {
      const end = held.indexOf(close);
      if (end < 0) return;
      held = held.slice(end + close.length);
      phase = "gap";
    }
    if (phase === "gap" && held.trimStart() !== "") {
      phase = "answer";
      answer(held.trimStart());
    }
  };
  return {
    push,
    end() {
      // An unfinished "<thi" at the very end was an answer after all.
      if (phase === "start" && held.trim() !== "") answer(held);
    },
  };
}
