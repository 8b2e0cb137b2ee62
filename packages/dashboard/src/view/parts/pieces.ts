/** A long text in pieces, cut at line feeds where there are some, never within a character. */
export function piecesOf(text: string, first: number, size: number): string[] {
  const pieces: string[] = [];
  let from = 0;
  while (from < text.length) {
    const room = from === 0 ? first : size;
    let to = Math.min(text.length, from + room);
    if (to < text.length) {
      const line = text.lastIndexOf("\n", to - 1);
      if (line > from + room / 2) to = line + 1;
      else if (to - 1 > from && /[\ud800-\udbff]/.test(text[to - 1]!)) to--;
    }
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}
