/** Text that others wrote, as one line that cannot move the cursor, change colours or turn the direction of writing. */
export function printable(text: string): string {
  return text
    .replace(/\s+/gu, " ")
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]/gu, "\ufffd")
    .trim();
}
