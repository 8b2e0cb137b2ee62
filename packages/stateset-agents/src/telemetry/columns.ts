/** Text in so many columns of a terminal. */
import { clip, padEnd, width } from "./format.ts";

/** Wraps at words; a word longer than a line is cut. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const paragraph of text.split("\n")) {
    let line = "";
    for (const word of paragraph.split(/\s+/).filter(Boolean)) {
      if (line !== "" && width(line) + 1 + width(word) > columns) {
        lines.push(line);
        line = "";
      }
      line = line === "" ? word : `${line} ${word}`;
      while (width(line) > columns) {
        const head = headOf(line, columns);
        lines.push(head);
        line = line.slice(head.length);
      }
    }
    lines.push(line);
  }
  return lines;
}

/** As many characters as fit, at least one. */
function headOf(text: string, columns: number): string {
  let head = "";
  for (const character of text) {
    if (head !== "" && width(head + character) > columns) break;
    head += character;
  }
  return head;
}

/** Parts one after the other, on as many lines as they need but at most `most`; the lines after the first are indented. */
export function flow(
  first: string,
  parts: readonly string[],
  { columns, gap, most = 3 }: { columns: number; gap: string; most?: number },
): string[] {
  const indent = " ".repeat(width(first));
  const lines: string[] = [];
  let line = first;
  let empty = true;
  for (const [i, part] of parts.entries()) {
    if (!empty && width(line) + width(gap) + width(part) > columns) {
      if (lines.length === most - 1) {
        lines.push(clip(`${line}${gap}${parts.slice(i).join(gap)}`, columns));
        return lines;
      }
      lines.push(line);
      line = indent;
      empty = true;
    }
    line += empty ? part : `${gap}${part}`;
    empty = false;
  }
  return [...lines, line].map((one) => clip(one, columns));
}

/** Two blocks of lines next to each other. */
export function beside(left: readonly string[], right: readonly string[], leftColumns: number, gap: string): string[] {
  const height = Math.max(left.length, right.length);
  return Array.from({ length: height }, (_, i) =>
    `${padEnd(clip(left[i] ?? "", leftColumns), leftColumns)}${gap}${right[i] ?? ""}`.trimEnd(),
  );
}
