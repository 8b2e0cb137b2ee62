/** Foreign text, cut into what can be shown as it is and what is invisible, misleading or broken, which gets a sign of its own. */
export interface Piece {
  text: string;
  /** Undefined: as it was written. */
  kind?: "control" | "ansi" | "bidi" | "broken";
  /** What it is, in words. */
  title?: string;
}

const names: Readonly<Record<number, string>> = {
  173: "SHY",
  1564: "ALM",
  6158: "MVS",
  8203: "ZWSP",
  8206: "LRM",
  8207: "RLM",
  8234: "LRE",
  8235: "RLE",
  8236: "PDF",
  8237: "LRO",
  8238: "RLO",
  8288: "WJ",
  8294: "LRI",
  8295: "RLI",
  8296: "FSI",
  8297: "PDI",
  65279: "BOM",
};

// In order: escape sequences of terminals, controls but for tab and line feed, marks that turn or hide text (joiners stay: scripts and emoji
// are written with them), tag characters, surrogates without their other half.
const odd =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
  /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]|[\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

export function visible(value: string): Piece[] {
  // Windows ends lines with two characters; nobody needs to see one of them.
  const text = value.replaceAll("\r\n", "\n");
  const pieces: Piece[] = [];
  let done = 0;
  for (const found of text.matchAll(odd)) {
    if (found.index > done) pieces.push({ text: text.slice(done, found.index) });
    pieces.push(sign(found[0]));
    done = found.index + found[0].length;
  }
  if (done < text.length) pieces.push({ text: text.slice(done) });
  return pieces;
}

/** One line of plain text, for titles, labels and canvas. */
export function plain(value: string): string {
  return visible(value)
    .map(({ text }) => text)
    .join("")
    .replace(/\s+/g, " ");
}

function sign(found: string): Piece {
  const code = found.codePointAt(0)!;
  const title = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  if (found.length > 1 && code === 0x1b)
    return { text: symbols(found), kind: "ansi", title: "an escape sequence for terminals" };
  if (code < 0x20 || code === 0x7f) return { text: symbols(found), kind: "control", title };
  if (code >= 0xd800 && code <= 0xdfff)
    return { text: "\ufffd", kind: "broken", title: `${title}, half of a character` };
  const name = names[code];
  if (name) return { text: `‹${name}›`, kind: "bidi", title };
  return { text: `‹${title}›`, kind: "control", title };
}

/** Controls as the pictures Unicode has for them. */
function symbols(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
  return text.replace(/[\u0000-\u001f\u007f]/g, (c) =>
    String.fromCharCode(c === "\u007f" ? 0x2421 : 0x2400 + c.charCodeAt(0)),
  );
}
