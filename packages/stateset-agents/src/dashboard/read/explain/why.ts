/** What "why this advantage" is made of. */

/** A number as a person reads it: four digits that count. */
export function show(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const text =
    Math.abs(value) !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)
      ? value.toExponential(3)
      : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

/** One that is taken off or added: in parentheses where it is negative. */
export const showIn = (value: number) => (value < 0 ? `(${show(value)})` : show(value));

export const listed = (values: readonly number[]) => values.map(show).join(", ");

/** How an algorithm got from rewards to advantages. Lists go with the conversations that were compared. */
export interface Explained {
  formula: string;
  lines: string[];
  members: string[];
  /** What the formula gives, a number a learn token; undefined where it needs more than the group. */
  advantages?: readonly Float32Array[];
  note?: string;
}
