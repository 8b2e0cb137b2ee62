/**
 * The Jinja library ignores the argument of Python's strip(), lstrip() and rstrip(), and templates such as Qwen3's depend on it
 * (`content.lstrip('\n')` must keep leading spaces). So in a parsed template `x.lstrip(chars)` becomes `python_lstrip(x, chars)`.
 */
export function rewriteStrips(program: object): void {
  const waiting: unknown[] = [program];
  const seen = new Set<unknown>();
  while (waiting.length > 0) {
    const node = waiting.pop();
    if (typeof node !== "object" || node === null || seen.has(node)) continue;
    seen.add(node);
    if (isStripCall(node)) {
      node.args = [node.callee.object, ...node.args];
      node.callee = { type: "Identifier", value: `python_${node.callee.property.value}` } as never;
    }
    waiting.push(...(node instanceof Map ? node.values() : Object.values(node)));
  }
}

interface StripCall {
  callee: { object: unknown; property: { value: keyof typeof sides } };
  args: unknown[];
}

const sides = { strip: [true, true], lstrip: [true, false], rstrip: [false, true] } as const;

function isStripCall(node: object): node is StripCall {
  const { type, callee, args } = node as { type?: string; callee?: Record<string, unknown>; args?: unknown };
  if (type !== "CallExpression" || callee?.type !== "MemberExpression" || callee.computed) return false;
  const name = (callee.property as { value?: unknown } | undefined)?.value;
  return Array.isArray(args) && args.length === 1 && typeof name === "string" && Object.hasOwn(sides, name);
}

/** The functions that rewritten templates call. */
export const stripFunctions = Object.fromEntries(
  Object.entries(sides).map(([name, [left, right]]) => [
    `python_${name}`,
    (text: unknown, chars: unknown) => {
      if (typeof text !== "string") throw new TypeError(`${name}() was called on something that is not a string`);
      return strip(text, typeof chars === "string" ? [...chars] : undefined, left, right);
    },
  ]),
);

/** Without characters (None), whitespace goes. */
function strip(text: string, chars: readonly string[] | undefined, left: boolean, right: boolean): string {
  if (!chars) return left && right ? text.trim() : left ? text.trimStart() : text.trimEnd();
  const points = [...text];
  let start = 0;
  let end = points.length;
  while (left && start < end && chars.includes(points[start]!)) start++;
  while (right && end > start && chars.includes(points[end - 1]!)) end--;
  return points.slice(start, end).join("");
}
