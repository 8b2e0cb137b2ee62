import type { Colors } from "picocolors/types";
import { wrap } from "../../telemetry/columns.ts";
import { clip, padEnd } from "../../telemetry/format.ts";

/** Two texts next to each other under their names, wrapped at words. */
export function sideBySide(
  names: readonly string[],
  texts: readonly string[],
  columns: number,
  colors: Pick<Colors, "bold" | "dim">,
): string[] {
  const gap = " │ ";
  const width = Math.max(16, Math.floor((columns - gap.length * (texts.length - 1)) / texts.length));
  const wrapped = texts.map((text) => wrap(text, width));
  const height = Math.max(...wrapped.map((lines) => lines.length));
  const row = (cells: readonly string[]) =>
    cells
      .map((cell) => padEnd(cell, width))
      .join(colors.dim(gap))
      .trimEnd();
  return [
    row(names.map((name, i) => colors.bold(clip(`${"ab"[i]}  ${name}`, width)))),
    ...Array.from({ length: height }, (_, i) => row(wrapped.map((lines) => lines[i] ?? ""))),
  ];
}
