/** Reading what a judge wrote. Each reader throws when the answer is not there; nothing is guessed or clamped. */

export interface Verdict {
  score: number;
  reason?: string;
}

/** A score on [min, max], from JSON `{"score": 7}` or, failing that, from a line such as `Score: 7/10`. */
export function readScore(text: string, scale: { min: number; max: number }): Verdict {
  const answer = stripThinking(text);
  const found = lastObject(answer, (o) => typeof o.score === "number" || typeof o.score === "string");
  const score = found ? Number(found.score) : scoreInProse(answer);
  if (score === undefined || !Number.isFinite(score)) throw new Error(`no score in ${quote(answer)}`);
  if (score < scale.min || score > scale.max) {
    throw new Error(`the score ${score} is outside ${scale.min} to ${scale.max}`);
  }
  return typeof found?.reason === "string" ? { score, reason: found.reason } : { score };
}

/** "first", "second" or "tie", from `{"winner": "A"}` or a last line that says A, B or tie. */
export function readWinner(text: string): "first" | "second" | "tie" {
  const answer = stripThinking(text);
  const found = lastObject(answer, (o) => typeof o.winner === "string");
  const word = found
    ? String(found.winner)
    : (/(?:winner|answer|verdict)\W{1,6}(?:response\s+|conversation\s+)?(a|b|tie)\b/i.exec(answer)?.[1] ??
      /^\W*(a|b|tie)\W*$/i.exec(answer.trim().split("\n").at(-1) ?? "")?.[1]);
  switch (word?.trim().toLowerCase()) {
    case "a":
      return "first";
    case "b":
      return "second";
    case "tie":
      return "tie";
    default:
      throw new Error(`no winner in ${quote(answer)}`);
  }
}

/** One score on [0, 1] per candidate, from `{"scores": [{"id": 1, "score": 0.8}, …]}`; every id exactly once. */
export function readScores(text: string, count: number): Verdict[] {
  const answer = stripThinking(text);
  const found = lastObject(answer, (o) => Array.isArray(o.scores));
  if (!found) throw new Error(`no list of scores in ${quote(answer)}`);
  const verdicts = new Array<Verdict | undefined>(count);
  for (const entry of found.scores as unknown[]) {
    const { id, score, reason } = (entry ?? {}) as Record<string, unknown>;
    const index = Number(id) - 1;
    const value = typeof score === "number" || typeof score === "string" ? Number(score) : Number.NaN;
    if (!Number.isInteger(index) || index < 0 || index >= count) throw new Error(`an unknown id ${JSON.stringify(id)}`);
    if (verdicts[index]) throw new Error(`two scores for id ${index + 1}`);
    if (!(value >= 0 && value <= 1)) throw new Error(`the score of id ${index + 1} is not between 0 and 1`);
    verdicts[index] = typeof reason === "string" ? { score: value, reason } : { score: value };
  }
  return verdicts.map((verdict, i) => {
    if (!verdict) throw new Error(`no score for id ${i + 1}`);
    return verdict;
  });
}

function stripThinking(text: string): string {
  return text.replace(/<think>[\s\S]*?<\/think>/g, "").trim();
}

function scoreInProse(text: string): number | undefined {
  const matches = [...text.matchAll(/\b(?:score|rating)\b[^\d\n-]{0,20}(-?\d+(?:\.\d+)?)/gi)];
  const last = matches.at(-1)?.[1] ?? /^\s*(-?\d+(?:\.\d+)?)\s*(?:\/\s*\d+)?\s*$/.exec(text)?.[1];
  return last === undefined ? undefined : Number(last);
}

/** The last JSON object in a text that passes a test: judges think aloud first and answer at the end. */
function lastObject(text: string, test: (o: Record<string, unknown>) => boolean): Record<string, unknown> | undefined {
  for (let end = text.lastIndexOf("}"); end >= 0; end = text.lastIndexOf("}", end - 1)) {
    for (
      let start = text.lastIndexOf("{", end);
      start >= 0;
      start = start > 0 ? text.lastIndexOf("{", start - 1) : -1
    ) {
      try {
        const value: unknown = JSON.parse(text.slice(start, end + 1));
        if (typeof value === "object" && value !== null && test(value as Record<string, unknown>)) {
          return value as Record<string, unknown>;
        }
      } catch {
        // Not a whole object yet: widen to an earlier brace.
      }
    }
    if (end === 0) break;
  }
  return undefined;
}

function quote(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 80)}…` : line);
}
