/**
 * Exponential moving average, with the correction for its beginning that Adam has, so that the first points are not drawn towards zero:
 * sᵢ = w·sᵢ₋₁ + (1−w)·yᵢ, shown as sᵢ / (1 − wⁿ). What is no number stays so and leaves the average as it was.
 */
export function smooth(values: ArrayLike<number>, weight: number): Float64Array {
  const smoothed = new Float64Array(values.length);
  let sum = 0;
  let known = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (!Number.isFinite(value)) {
      smoothed[i] = Number.NaN;
      continue;
    }
    known++;
    sum = weight * sum + (1 - weight) * value;
    smoothed[i] = sum / (1 - weight ** known);
  }
  return smoothed;
}
