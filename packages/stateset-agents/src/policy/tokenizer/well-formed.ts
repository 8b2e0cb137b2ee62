/** UTF-16 may hold half a character, UTF-8 may not: such halves become U+FFFD, as every UTF-8 encoder writes them. */
export function wellFormed(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD");
}
