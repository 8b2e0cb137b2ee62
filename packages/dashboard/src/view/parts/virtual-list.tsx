/** A list of any length of which only what is seen is in the page. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  observeWindowOffset,
  observeWindowRect,
  Virtualizer,
  type VirtualizerOptions,
  windowScroll,
} from "@tanstack/virtual-core";
import type { ComponentChildren, Ref } from "preact";
import { useImperativeHandle, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

export interface VirtualListHandle {
  scrollTo(index: number, align?: "auto" | "start" | "center"): void;
}

export interface VirtualListProps {
  count: number;
  /** The height in pixels that a row is thought to have until it is measured. */
  estimate(index: number): number;
  /** Another function (as an arrow written in place is, whenever its component is drawn): all rows are drawn anew. */
  render(index: number): ComponentChildren;
  /** What a row is called, so that its height is known again when rows move. */
  keyOf?(index: number): string | number;
  /** "page": the list is as long as it is and the window scrolls; "own" (left out): it scrolls in itself. */
  scroll?: "own" | "page";
  /** Called when the end is near. */
  onEnd?(): void;
  class?: string;
  label?: string;
  role?: "list" | "rowgroup" | "presentation";
  handle?: Ref<VirtualListHandle>;
}

/** Rows before the end from which on more are asked for: at the speed of a wheel they come before they are seen, and not all in one frame. */
const ahead = 40;

type Any = Virtualizer<Element | Window, Element>;

export function VirtualList(props: VirtualListProps) {
  const { count, estimate, render, keyOf, scroll = "own", onEnd, label, role = "list", handle } = props;
  const outer = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const [margin, setMargin] = useState(0);
  const options = {
    count,
    estimateSize: estimate,
    getScrollElement: () => (scroll === "page" ? window : outer.current),
    scrollToFn: scroll === "page" ? windowScroll : elementScroll,
    observeElementRect: scroll === "page" ? observeWindowRect : observeElementRect,
    observeElementOffset: scroll === "page" ? observeWindowOffset : observeElementOffset,
    onChange: () => redraw(undefined),
    overscan: 6,
    scrollMargin: margin,
    ...(keyOf && { getItemKey: keyOf }),
  } as unknown as VirtualizerOptions<Element | Window, Element>;
  const [virtual] = useState<Any>(() => new Virtualizer(options));
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => virtual._willUpdate());
  // Where it begins is measured when what is around it was drawn anew, not at every move of the wheel.
  useLayoutEffect(() => {
    if (scroll !== "page" || !inner.current) return;
    setMargin(Math.round(inner.current.getBoundingClientRect().top + window.scrollY));
  }, [render]);
  useImperativeHandle(
    handle ?? null,
    () => ({ scrollTo: (index, align = "auto") => virtual.scrollToIndex(index, { align }) }),
    [],
  );
  // While it only scrolls, rows that stay are the same and cost nothing.
  const rows = useMemo(() => new Map<number, ComponentChildren>(), [render]);
  const row = (index: number) => {
    if (!rows.has(index)) rows.set(index, render(index));
    return rows.get(index);
  };
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const nearEnd = count > 0 && last >= count - ahead;
  useLayoutEffect(() => {
    if (nearEnd) onEnd?.();
  }, [nearEnd, count]);
  return (
    <div
      ref={outer}
      class={`virtual virtual-${scroll} ${props.class ?? ""}`}
      tabIndex={scroll === "own" ? 0 : undefined}
    >
      <div
        ref={inner}
        class="virtual-inner"
        role={role}
        aria-label={label}
        style={{ height: `${virtual.getTotalSize()}px` }}
      >
        {items.map((item) => (
          <div
            key={item.key}
            data-index={item.index}
            ref={virtual.measureElement}
            class="virtual-item"
            role={role === "list" ? "listitem" : "presentation"}
            aria-setsize={role === "list" ? count : undefined}
            aria-posinset={role === "list" ? item.index + 1 : undefined}
            style={{ transform: `translateY(${item.start - margin}px)` }}
          >
            {row(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
