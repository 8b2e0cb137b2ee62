/** The shortest decimal that names a float32 among all of them: what was computed, to the last digit that means anything. */
export function float32(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "-∞";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const own = Math.fround(value);
  // Nine significant digits always tell two float32 apart.
  for (let digits = 1; digits < 9; digits++) {
    const shorter = Number(own.toPrecision(digits));
    if (Math.fround(shorter) === own) return written(shorter);
  }
  return written(Number(own.toPrecision(9)));
}

/** Without a row of zeros that has to be counted. */
const written = (value: number) => (Math.abs(value) < 1e-4 ? value.toExponential() : String(value));
