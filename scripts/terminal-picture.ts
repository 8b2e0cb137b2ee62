/**
 * Turns what a terminal shows into an SVG: `tmux capture-pane -e -p | npx tsx scripts/terminal-picture.ts docs/images/train.svg "title"`.
 * Understands the colours and styles of SGR sequences; everything else of ANSI has been applied by tmux already.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

interface Style {
  colour: string | undefined;
  background: string | undefined;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
}

interface Run {
  text: string;
  style: Style;
}

const plain: Style = {
  colour: undefined,
  background: undefined,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
};
const foreground = "#d8dee9";
const paper = "#1b1f27";
const palette = ["#3b4252", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dee9"];
const bright = ["#6b7689", "#ff7b86", "#b5e48c", "#ffd68a", "#7cc4ff", "#dc94f0", "#6fd3df", "#ffffff"];
/** Of one character, in pixels. */
const cell = { width: 8.4, height: 19 };
const margin = { x: 18, top: 44, bottom: 18 };

export function terminalPicture(capture: string, title = ""): string {
  const lines = parse(capture.replace(/\s+$/, ""));
  const columns = Math.max(60, ...lines.map((runs) => runs.reduce((sum, run) => sum + [...run.text].length, 0)));
  const width = Math.ceil(columns * cell.width + 2 * margin.x);
  const height = Math.ceil(lines.length * cell.height + margin.top + margin.bottom);
  const body = lines.map((runs, row) => drawLine(runs, margin.top + row * cell.height)).join("\n");
  const dots = ["#ff5f57", "#febc2e", "#28c840"]
    .map((fill, i) => `<circle cx="${20 + i * 18}" cy="18" r="5.5" fill="${fill}"/>`)
    .join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<title>${escaped(title)}</title>
<rect width="${width}" height="${height}" rx="9" fill="${paper}"/>
${dots}
<text x="${width / 2}" y="22" fill="#8892a2" font-family="system-ui, sans-serif" font-size="12.5" text-anchor="middle">${escaped(title)}</text>
<g font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">
${body}
</g>
</svg>
`;
}

function drawLine(runs: readonly Run[], top: number): string {
  const parts: string[] = [];
  let column = 0;
  for (const { text, style } of runs) {
    const length = [...text].length;
    const x = margin.x + column * cell.width;
    const [front, back] = style.inverse
      ? [style.background ?? paper, style.colour ?? foreground]
      : [style.colour ?? foreground, style.background];
    if (back)
      parts.push(
        `<rect x="${x.toFixed(1)}" y="${top}" width="${(length * cell.width).toFixed(1)}" height="${cell.height}" fill="${back}"/>`,
      );
    if (text.trim() !== "") {
      const looks = [
        style.bold ? 'font-weight="700"' : "",
        style.dim ? 'opacity="0.6"' : "",
        style.italic ? 'font-style="italic"' : "",
        style.underline ? 'text-decoration="underline"' : "",
      ];
      // textLength keeps columns aligned whatever monospace font the viewer has.
      parts.push(
        `<text x="${x.toFixed(1)}" y="${(top + 14).toFixed(1)}" fill="${front}" xml:space="preserve" textLength="${(length * cell.width).toFixed(1)}" lengthAdjust="spacingAndGlyphs" ${looks.filter(Boolean).join(" ")}>${escaped(text)}</text>`,
      );
    }
    column += length;
  }
  return parts.join("");
}

/** A style lasts until it is changed, also over the end of a line. */
function parse(capture: string): Run[][] {
  let style = plain;
  return capture.split("\n").map((line) => {
    const runs: Run[] = [];
    for (const [i, part] of line.split("\u001b[").entries()) {
      let text = part;
      if (i > 0) {
        const end = part.indexOf("m");
        style = apply(style, part.slice(0, end).split(";").map(Number));
        text = part.slice(end + 1);
      }
      if (text !== "") runs.push({ text, style });
    }
    return runs;
  });
}

function apply(before: Style, codes: readonly number[]): Style {
  let style = { ...before };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    if (code === 0) style = { ...plain };
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 22) style = { ...style, bold: false, dim: false };
    else if (code === 23) style.italic = false;
    else if (code === 24) style.underline = false;
    else if (code === 27) style.inverse = false;
    else if (code >= 30 && code <= 37) style.colour = palette[code - 30];
    else if (code >= 90 && code <= 97) style.colour = bright[code - 90];
    else if (code === 39) style.colour = undefined;
    else if (code >= 40 && code <= 47) style.background = palette[code - 40];
    else if (code === 49) style.background = undefined;
    else if (code === 38 || code === 48) {
      const value = codes[i + 1] === 5 ? indexed(codes[i + 2]!) : `rgb(${codes.slice(i + 2, i + 5).join(",")})`;
      if (code === 38) style.colour = value;
      else style.background = value;
      i += codes[i + 1] === 5 ? 2 : 4;
    }
  }
  return style;
}

/** The 256-colour table: 16 named ones, a 6×6×6 cube, 24 greys. */
function indexed(index: number): string {
  if (index < 8) return palette[index]!;
  if (index < 16) return bright[index - 8]!;
  if (index >= 232)
    return `rgb(${Array(3)
      .fill(8 + (index - 232) * 10)
      .join(",")})`;
  const level = (n: number) => (n === 0 ? 0 : 55 + n * 40);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))},${level(Math.floor(cube / 6) % 6)},${level(cube % 6)})`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [output, title] = process.argv.slice(2);
  if (output === undefined) throw new Error("Usage: terminal-picture.ts <output.svg> [title] < capture");
  writeFileSync(output, terminalPicture(readFileSync(0, "utf8"), title));
}
