/**
 * Operations on strings that the Jinja library does otherwise than a chat template needs them:
 * - strip(), lstrip() and rstrip() take the characters to be stripped, as in Python; templates such as Qwen3's depend on it
 *   (`content.lstrip('\n')` must keep leading spaces);
 * - a template that looks into foreign text (`'</think>' in content`) finds what is written there, not the marks in it.
 * So in a parsed template `x.lstrip(chars)` becomes `string_lstrip(x, chars)`, `a in b` becomes `string_in(a, b)`, and so on.
 */
import { escapeMark, splitMarked, unitsOf, unmark } from "./marks.ts";

interface Node {
  type?: string;
  [key: string]: unknown;
}

export function rewriteStrings(program: object): void {
  const waiting: unknown[] = [program];
  const seen = new Set<unknown>();
  while (waiting.length > 0) {
    const node = waiting.pop();
    if (typeof node !== "object" || node === null || seen.has(node)) continue;
    seen.add(node);
    const call = callFor(node as Node);
    if (call) Object.assign(node, { type: "CallExpression", ...call });
    waiting.push(...(node instanceof Map ? [...node.keys(), ...node.values()] : Object.values(node)));
  }
}

const operators: Record<string, keyof typeof functions> = {
  "==": "equal",
  "!=": "unequal",
  in: "in",
  "not in": "not_in",
};
const methods = new Set(["strip", "lstrip", "rstrip", "startswith", "endswith", "split", "replace"]);

function callFor(node: Node): { callee: Node; args: unknown[] } | undefined {
  const call = (name: string, ...args: unknown[]) => ({
    callee: { type: "Identifier", value: `string_${name}` },
    args,
  });
  if (node.type === "BinaryExpression") {
    const name = operators[(node.operator as { value: string }).value];
    return name && !isRole(node.left as Node) ? call(name, node.left, node.right) : undefined;
  }
  if (node.type === "CallExpression" && Array.isArray(node.args) && node.args.length > 0) {
    const callee = node.callee as Node;
    const name = (callee.property as Node | undefined)?.value;
    if (callee.type !== "MemberExpression" || callee.computed || typeof name !== "string" || !methods.has(name)) return;
    return call(name, callee.object, ...node.args);
  }
  if (node.type === "FilterExpression") {
    const filter = node.filter as Node;
    if (filter.type === "Identifier") return filter.value === "length" ? call("length", node.operand) : undefined;
    const name = (filter.callee as Node).value;
    const args = filter.args as Node[];
    if (name === "replace") return call("replace", node.operand, ...args);
    const ascii = args.find(
      (arg) => arg.type === "KeywordArgumentExpression" && (arg.key as Node).value === "ensure_ascii",
    );
    if (name !== "tojson" || !ascii) return;
    const json = { ...node, filter: { ...filter, args: args.filter((arg) => arg !== ascii) } };
    return call("ascii", json, ascii.value);
  }
}

/** `message.role`: no role is ever marked, and templates ask for little else as often. */
function isRole({ type, property }: Node): boolean {
  return type === "MemberExpression" && (property as Node).value === "role";
}

/** What a rewritten template calls. Lists arrive as the library's own values, objects as maps of these, named arguments too; none as undefined. */
const functions = {
  strip: (text: unknown, chars: unknown) => strip(string(text, "strip"), chars, true, true),
  lstrip: (text: unknown, chars: unknown) => strip(string(text, "lstrip"), chars, true, false),
  rstrip: (text: unknown, chars: unknown) => strip(string(text, "rstrip"), chars, false, true),
  startswith: (text: unknown, sought: unknown) =>
    oneOf(sought, "startswith").some((part) => unmark(string(text, "startswith")).startsWith(part)),
  endswith: (text: unknown, sought: unknown) =>
    oneOf(sought, "endswith").some((part) => unmark(string(text, "endswith")).endsWith(part)),
  split(text: unknown, separator: unknown, most?: unknown) {
    const cuts = countOf(most, "maxsplit");
    if (separator === "") throw new TypeError("split was asked for an empty separator");
    if (separator !== undefined && separator !== null)
      return splitMarked(string(text, "split"), string(separator, "split"), cuts);
    // Without a separator, at whitespace.
    const words = string(text, "split")
      .trimStart()
      .split(/(?<=\S)(?=\s)/);
    const rest = words.slice(cuts).join("").trimStart();
    const cut = words.slice(0, cuts).map((word) => word.trim());
    return [...cut, rest].filter((word) => word !== "");
  },
  replace(text: unknown, sought: unknown, instead: unknown, most?: unknown) {
    const [whole, old] = [string(text, "replace"), string(sought, "replace")];
    const parts = old === "" ? ["", ...unitsOf(whole), ""] : splitMarked(whole, old, countOf(most, "count"));
    return parts.join(string(instead, "replace"));
  },
  length(value: unknown): number {
    if (typeof value === "string") return unmark(value).length;
    if (Array.isArray(value)) return value.length;
    if (value instanceof Map) return value.size;
    throw new TypeError("length was asked of something that has none");
  },
  equal: (a: unknown, b: unknown) => isEqual(a, b),
  unequal: (a: unknown, b: unknown) => !isEqual(a, b),
  in: (part: unknown, whole: unknown) => isIn(part, whole),
  not_in: (part: unknown, whole: unknown) => !isIn(part, whole),
  /** JSON with every other character than ASCII escaped: but not the marks. */
  ascii(json: unknown, wanted: unknown) {
    const text = string(json, "tojson");
    return wanted === true
      ? text.replace(notAscii, (char) => (isAscii(unmark(char)) ? char : codesOf(unmark(char))))
      : text;
  },
};

export const stringFunctions = Object.fromEntries(
  Object.entries(functions).map(([name, run]) => [`string_${name}`, run]),
);

const notAscii = new RegExp(`${escapeMark}[^]|[^\\x00-\\x7e]`, "gu");

/** Marks alone are no text at all. */
function isAscii(text: string): boolean {
  return text === "" || text <= "\x7e";
}

function codesOf(text: string): string {
  return text
    .split("")
    .map((half) => `\\u${half.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}

function string(value: unknown, name: string): string {
  if (typeof value !== "string") throw new TypeError(`${name} was asked of something that is not a string`);
  return value;
}

/** How often, at most; given by place or by name, and anything below zero is no limit. */
function countOf(given: unknown, name: string): number {
  const count = given instanceof Map ? (given.get(name) as { value?: unknown } | undefined)?.value : given;
  return typeof count === "number" && count >= 0 ? count : Number.POSITIVE_INFINITY;
}

function oneOf(sought: unknown, name: string): string[] {
  const parts = Array.isArray(sought) ? sought.map((part) => (part as { value: unknown }).value) : [sought];
  return parts.map((part) => unmark(string(part, name)));
}

/** Without characters (None), whitespace goes. */
function strip(text: string, chars: unknown, left: boolean, right: boolean): string {
  if (typeof chars !== "string") return left && right ? text.trim() : left ? text.trimStart() : text.trimEnd();
  const sought = new Set(unmark(chars));
  const units = unitsOf(text);
  let start = 0;
  let end = units.length;
  while (left && start < end && sought.has(unmark(units[start]!))) start++;
  while (right && end > start && sought.has(unmark(units[end - 1]!))) end--;
  return units.slice(start, end).join("");
}

function isEqual(a: unknown, b: unknown): boolean {
  if (typeof a === "string" && typeof b === "string") return unmark(a) === unmark(b);
  // biome-ignore lint/suspicious/noDoubleEquals: the library's own rule, by which none equals what is undefined
  return a == b;
}

function isIn(part: unknown, whole: unknown): boolean {
  if (whole === undefined) return false;
  if (Array.isArray(whole)) return whole.some((item) => isSame((item as { value: unknown }).value, part));
  if (typeof part === "string" && typeof whole === "string") return unmark(whole).includes(unmark(part));
  if (typeof part === "string" && whole instanceof Map) return whole.has(part);
  throw new TypeError("`in` was asked of things that cannot hold each other");
}

function isSame(a: unknown, b: unknown): boolean {
  return typeof a === "string" && typeof b === "string" ? unmark(a) === unmark(b) : a === b;
}
