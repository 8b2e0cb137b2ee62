/** Lists of names in an address: separated by commas, so that a comma in a name is written as %2C once more. */
export function joinNames(names: readonly string[]): string {
  return names.map((name) => name.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");
}

export function splitNames(text: string | undefined): string[] {
  if (!text) return [];
  return text
    .split(",")
    .filter(Boolean)
    .map((name) => name.replaceAll("%2C", ",").replaceAll("%25", "%"));
}
