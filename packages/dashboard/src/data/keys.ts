/** Keys that do something, and the list of them that ? shows. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Key {
  /** As KeyboardEvent.key has it: "j", "[", "?", "Escape". */
  key: string;
  does: string;
  run(): void;
}

const active = signal<readonly (readonly Key[])[]>([]);

/** All that count now, those of the innermost view first. */
export function activeKeys(): Key[] {
  const seen = new Set<string>();
  return [...active.value].reverse().flatMap((keys) => keys.filter(({ key }) => !seen.has(key) && seen.add(key)));
}

/** While the component is shown. */
export function useKeys(keys: readonly Key[]): void {
  const latest = useRef(keys);
  latest.current = keys;
  const names = keys.map(({ key }) => key).join(" ");
  useEffect(() => {
    const own = keys.map(({ key, does }, i): Key => ({ key, does, run: () => latest.current[i]?.run() }));
    active.value = [...active.value, own];
    return () => {
      active.value = active.value.filter((one) => one !== own);
    };
  }, [names]);
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  // What is asked in a dialog is answered there.
  if (document.querySelector("dialog[open]")) return;
  const { target } = event;
  const typing = target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
  if (typing && event.key !== "Escape") return;
  // These press what has the focus.
  const pressing = event.key === " " || event.key === "Enter";
  if (pressing && target instanceof HTMLElement && target.matches("button, summary, a, [role=button]")) return;
  const found = activeKeys().find(({ key }) => key === event.key);
  if (!found) return;
  event.preventDefault();
  found.run();
});
