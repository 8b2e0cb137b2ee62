/** What of an axis is shown of values that lie between two bounds; undefined where one does not, or there is none. Points at a bound are not cut in half. */
export function boundedRange(
  [least, most]: readonly [number, number],
  values: readonly (number | null | undefined)[],
): [number, number] | undefined {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (typeof value !== "number") continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high || low < least || high > most) return undefined;
  const around = 0.03 * (most - least);
  const room = Math.max(around, 0.1 * (high - low));
  // A bound that is nearly there is shown.
  const near = 0.1 * (most - least);
  return [
    low - room < least + near ? least - around : low - room,
    high + room > most - near ? most + around : high + room,
  ];
}
