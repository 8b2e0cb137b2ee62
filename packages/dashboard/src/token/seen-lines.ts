/** Which lines of a block are in the window: of lines that all have one height, wherever the block stands. */
import { useLayoutEffect, useRef } from "preact/hooks";

/** Lines beyond either end of the window, for a wheel that turns faster than frames are made. */
const beyond = 8;

/**
 * `draw` is called whenever other lines are seen, and whenever it is another function than before. Not by way of a state: a scroll then
 * draws lines and nothing around them.
 */
export function useSeenLines(
  block: { current: HTMLElement | null },
  count: number,
  lineHeight: number,
  draw: (first: number, end: number) => void,
): void {
  const seen = useRef<{ first: number; end: number; by: unknown }>(undefined);
  useLayoutEffect(() => {
    const look = (): (() => void) => {
      if (!block.current) return () => {};
      const { top } = block.current.getBoundingClientRect();
      const from = Math.max(0, Math.floor(-top / lineHeight) - beyond);
      const to = Math.min(count, Math.ceil((innerHeight - top) / lineHeight) + beyond);
      // The first line stays, so that the block can be tabbed to from wherever one is.
      const [first, end] = from >= to ? [0, Math.min(1, count)] : [from, to];
      return () => {
        const { current } = seen;
        if (current?.by === draw && current.first === first && current.end === end) return;
        seen.current = { first, end, by: draw };
        draw(first, end);
      };
    };
    look()();
    lookers.add(look);
    return () => void lookers.delete(look);
  }, [count, lineHeight, draw]);
}

/** Each looks where its block is, and answers with what draws it. */
const lookers = new Set<() => () => void>();
let asked = false;

function later(): void {
  if (asked || lookers.size === 0) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    // All look before the first one draws: what is drawn has to be laid out before anything can be looked at.
    const draws = [...lookers].map((look) => look());
    for (const draw of draws) draw();
  });
}

// Scrolls do not bubble; whatever scrolls is heard on its way down.
addEventListener("scroll", later, { capture: true, passive: true });
addEventListener("resize", later);
// Whatever above a block grows or shrinks moves it.
new ResizeObserver(later).observe(document.body);
