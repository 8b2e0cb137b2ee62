/** Where in a text an error of the server says that something is wrong, counted from 0; undefined where it does not say. */
export function placeIn(message: string, text: string): number | undefined {
  const found = /\bcolumn (\d+)/.exec(message);
  if (!found) return undefined;
  return Math.min(Math.max(Number(found[1]) - 1, 0), text.length);
}
