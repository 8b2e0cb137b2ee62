/** One field of CSV (RFC 4180). Text that begins like a formula would be run by a spreadsheet: an apostrophe before it makes it text. Numbers stay numbers. */
export function csvCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
