/** A message of any length: its beginning at once, the rest when it is asked for, a piece a frame. */
import { useEffect, useState } from "preact/hooks";
import "./long-text.css";
import { plural } from "./number.ts";
import { piecesOf } from "./pieces.ts";
import { Text } from "./text.tsx";

const first = 8000;
const piece = 20_000;

export function LongText({ value }: { value: string }) {
  const [asked, setAsked] = useState(false);
  const [shown, setShown] = useState(1);
  const pieces = piecesOf(value, first, piece);
  useEffect(() => {
    if (!asked || shown >= pieces.length) return;
    const frame = requestAnimationFrame(() => setShown((count) => count + 1));
    return () => cancelAnimationFrame(frame);
  }, [asked, shown, pieces.length]);
  return (
    <div class="long-text">
      {pieces.slice(0, shown).map((text, i) => (
        <div key={i} class={i === 0 ? undefined : "long-text-piece"}>
          <Text value={text} />
        </div>
      ))}
      {pieces.length > 1 && !asked && (
        <button type="button" class="button small" onClick={() => setAsked(true)}>
          Show all: {plural(value.length - first, "more character")}
        </button>
      )}
    </div>
  );
}
