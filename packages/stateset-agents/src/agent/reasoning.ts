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

/** Passes on only the answer of a streamed reply. */
export function answerOnly(emit: (text: string) => void): { push(text: string): void; end(): void } {
  return splitThought({ answer: emit });
}

/**
 * Takes a streamed reply apart as splitReasoning() does a whole one. Text is held back while it could still be the start of a thought, or
 * of its end. Where the template opens the thought itself, the reply's own text does not say so; then it is told as an answer.
 */
export function splitThought(emit: { answer: (text: string) => void; thought?: (text: string) => void }): {
  push(text: string): void;
  end(): void;
} {
  let held = "";
  let told = false;
  let phase: "start" | "thinking" | "gap" | "answer" = "start";
  const answer = (text: string) => {
    if (text !== "") emit.answer(text);
  };
  /** Without the spaces around it, as a whole thought has none. */
  const think = (text: string) => {
    const shown = told ? text : text.trimStart();
    if (shown !== "") emit.thought?.(shown);
    told ||= shown !== "";
  };
  const push = (text: string) => {
    if (phase === "answer") return answer(text);
    held += text;
    if (phase === "start") {
      const begun = held.trimStart();
      if (begun.startsWith(open)) {
        phase = "thinking";
        held = begun.slice(open.length);
      } else if (!open.startsWith(begun)) {
        phase = "answer";
        return answer(held);
      }
    }
    if (phase === "thinking") {
      const end = held.indexOf(close);
      if (end < 0) {
        const certain = certainThought(held);
        think(held.slice(0, certain));
        held = held.slice(certain);
        return;
      }
      think(held.slice(0, end).trimEnd());
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
      // An unfinished "<thi" at the very end was an answer after all, and an unfinished "</thi" a thought.
      if (phase === "start" && held.trim() !== "") answer(held);
      if (phase === "thinking") think(held.trimEnd());
    },
  };
}

/** How much of a thought is certainly not its end, nor spaces before that. */
function certainThought(text: string): number {
  for (let at = Math.max(0, text.length - close.length + 1); at < text.length; at++) {
    if (close.startsWith(text.slice(at))) return text.slice(0, at).trimEnd().length;
  }
  return text.trimEnd().length;
}
