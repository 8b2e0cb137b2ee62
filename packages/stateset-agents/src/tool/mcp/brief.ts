import { printable } from "../../printable.ts";

/** What a server says, for a line about it. */
export function brief(text: string, most = 500): string {
  return printable(text.length > most ? `${text.slice(0, most)} …` : text);
}
