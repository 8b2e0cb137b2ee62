/**
 * `compute`, remembering what it gave for the texts it met last: the members of a group begin with the same prompt, and a prompt is
 * counted before it is sampled from. Texts of more than `most` characters in all are not kept.
 */
export function rememberRecent<T>(compute: (text: string) => T, most = 1 << 20): (text: string) => T {
  const recent = new Map<string, T>();
  let held = 0;
  return (text) => {
    const known = recent.get(text);
    if (known !== undefined) {
      // The order of a Map is that of insertion: the first is the one not met for longest.
      recent.delete(text);
      recent.set(text, known);
      return known;
    }
    const value = compute(text);
    if (text.length > most) return value;
    recent.set(text, value);
    held += text.length;
    for (const oldest of recent.keys()) {
      if (held <= most) break;
      recent.delete(oldest);
      held -= oldest.length;
    }
    return value;
  };
}
