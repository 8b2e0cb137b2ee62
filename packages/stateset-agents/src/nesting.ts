/** Deeper than anything a run writes, and less than what walking, copying or writing a value down can take. */
const deepest = 200;

/** Whether JSON that somebody else wrote can be handed on: what is nested by the thousand ends the stack of whoever takes it. */
export function isShallow(value: unknown, levels = deepest): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  return Object.values(value).every((inner) => isShallow(inner, levels - 1));
}
