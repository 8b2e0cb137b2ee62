/** Two-sided quantiles: the t with which a statistic lies within ±t with probability `level`. */

const known = new Map<string, number>();

/** Of Student's t with `df` degrees of freedom, a whole number, or of the normal distribution where it is Infinity. */
export function twoSided(level: number, df: number): number {
  const key = `${level} ${df}`;
  let t = known.get(key);
  if (t === undefined) {
    t = df === Number.POSITIVE_INFINITY ? normalQuantile(level) : studentQuantile(level, df);
    known.set(key, t);
  }
  return t;
}

/** With θ = atan(t / √df) the probability is a finite sum (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4). */
function studentQuantile(level: number, df: number): number {
  const within = (theta: number) => {
    const cos = Math.cos(theta);
    const odd = df % 2 === 1;
    let [term, sum] = df === 1 ? [0, 0] : [odd ? cos : 1, odd ? cos : 1];
    for (let k = odd ? 3 : 2; k < df; k += 2) {
      term *= (cos * cos * (k - 1)) / k;
      sum += term;
    }
    return odd ? (2 / Math.PI) * (theta + Math.sin(theta) * sum) : Math.sin(theta) * sum;
  };
  return Math.sqrt(df) * Math.tan(bisect(within, level, Math.PI / 2));
}

/** By the series of the error function, 2φ(x)(x + x³/3 + x⁵/15 + …). */
function normalQuantile(level: number): number {
  const within = (x: number) => {
    let [term, sum] = [x, x];
    for (let k = 3; term > 1e-17 * sum; k += 2) {
      term *= (x * x) / k;
      sum += term;
    }
    return Math.sqrt(2 / Math.PI) * Math.exp((-x * x) / 2) * sum;
  };
  return bisect(within, level, 9);
}

/** Where a growing function of 0…end has a value. */
function bisect(of: (x: number) => number, value: number, end: number): number {
  let [low, high] = [0, end];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (of(middle) < value) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
