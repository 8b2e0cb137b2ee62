import type { Colors } from "picocolors/types";
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

export function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const paragraph of text.split("\n")) {
    let line = "";
    for (const word of paragraph.split(/\s+/).filter(Boolean)) {
      // A word longer than a line is cut.
      for (let rest = word; rest.length > 0; ) {
        const room = width - (line === "" ? 0 : line.length + 1);
        if (rest.length <= room) {
          line = line === "" ? rest : `${line} ${rest}`;
          rest = "";
        } else if (line === "") {
          lines.push(rest.slice(0, width));
          rest = rest.slice(width);
        } else {
          lines.push(line);
          line = "";
        }
      }
    }
    lines.push(line);
  }
  return lines;
}
