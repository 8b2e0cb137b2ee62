/** Which lines of a block are in the window: of lines that all have one height, wherever the block stands. */
import { useLayoutEffect, useState } from "preact/hooks";

/** Lines are drawn in lots, so that most frames of a scroll draw nothing. */
const lot = 8;

export function useSeenLines(
  block: { current: HTMLElement | null },
  count: number,
  lineHeight: number,
): readonly [number, number] {
  const [seen, setSeen] = useState<readonly [number, number]>([0, Math.min(count, lot)]);
  useLayoutEffect(() => {
    const look = () => {
      if (!block.current) return;
      const { top } = block.current.getBoundingClientRect();
      const lots = (pixels: number) => pixels / lineHeight / lot;
      const first = Math.max(0, Math.floor(lots(-top) - 0.5)) * lot;
      const end = Math.ceil(lots(innerHeight - top) + 0.5) * lot;
      // The first line stays, so that the block can be tabbed to from wherever one is.
      const next: readonly [number, number] =
        end <= 0 || first >= count ? [0, Math.min(1, count)] : [first, Math.min(end, count)];
      setSeen((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
    };
    look();
    lookers.add(look);
    return () => void lookers.delete(look);
  }, [count, lineHeight]);
  return [Math.min(seen[0], count), Math.min(seen[1], count)];
}

const lookers = new Set<() => void>();
let asked = false;

function later(): void {
  if (asked || lookers.size === 0) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    for (const look of [...lookers]) look();
  });
}

// Scrolls do not bubble; whatever scrolls is heard on its way down.
addEventListener("scroll", later, { capture: true, passive: true });
addEventListener("resize", later);
// Whatever above a block grows or shrinks moves it.
new ResizeObserver(later).observe(document.body);
