type Values = readonly (number | null | undefined)[];

/**
 * What of an axis is shown of values that lie between two bounds; undefined where one does not, or there is none. Of `bands`, which may reach
 * beyond, so much as lies between. Points at a bound are not cut in half.
 */
export function boundedRange(
  [least, most]: readonly [number, number],
  values: Values,
  bands: Values = [],
): [number, number] | undefined {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    if (typeof value !== "number") continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high || low < least || high > most) return undefined;
  for (const value of bands) {
    if (typeof value !== "number") continue;
    low = Math.max(least, Math.min(low, value));
    high = Math.min(most, Math.max(high, value));
  }
  const around = 0.03 * (most - least);
  const room = Math.max(around, 0.1 * (high - low));
  // A bound that is nearly there is shown.
  const near = 0.1 * (most - least);
  return [
    low - room < least + near ? least - around : low - room,
    high + room > most - near ? most + around : high + room,
  ];
}
