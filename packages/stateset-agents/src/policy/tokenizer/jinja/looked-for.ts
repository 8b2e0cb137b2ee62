import type { Node } from "./library.ts";

const comparisons: ReadonlySet<unknown> = new Set(["==", "!=", "in", "not in"]);

/** What is called with a name or with something to print. */
const noSearch: ReadonlySet<unknown> = new Set(["get", "default", "join", "indent", "raise_exception", "strftime_now"]);

/** `message.role == 'user'` asks who speaks, `parameter.type == 'string'` what a tool takes. */
const notSaid: ReadonlySet<unknown> = new Set(["role", "type"]);

/**
 * The strings that a template may look for in what is said: `'/no_think' in message.content`. These are all that it does not
 * print: what it compares, what it calls methods and filters with, what it keeps in variables and lists. Besides, texts that
 * begin with one thing and end with another, where it looks for both.
 */
export function lookedFor(program: object): string[] {
  const found = new Set<string>();
  const beginnings = new Set<string>();
  const ends = new Set<string>();
  const visit = (node: unknown, isSought: boolean): void => {
    if (Array.isArray(node)) for (const part of node) visit(part, isSought);
    else if (node instanceof Map) for (const [key, part] of node) visit([key, part], isSought);
    else if (typeof node === "object" && node !== null) visitNode(node as Node, isSought);
  };
  const visitNode = (node: Node, isSought: boolean): void => {
    const { type } = node;
    if (type === "StringLiteral") {
      if (isSought && (node.value as string).trim() !== "") found.add(node.value as string);
    } else if (type === "BinaryExpression") {
      const compares = comparisons.has((node.operator as { value: string }).value);
      const asksOther = compares && [node.left, node.right].some((side) => notSaid.has(propertyOf(side as Node)));
      visit([node.left, node.right], compares && !asksOther);
    } else if (type === "CallExpression") {
      const callee = node.callee as Node;
      const name = propertyOf(callee) ?? callee.value;
      visit(callee, isSought);
      visit(node.args, !noSearch.has(name));
      const [first] = node.args as Node[];
      if (first?.type === "StringLiteral" && name === "startswith") beginnings.add(first.value as string);
      if (first?.type === "StringLiteral" && name === "endswith") ends.add(first.value as string);
    } else if (type === "MemberExpression") {
      visit(node.object, isSought);
      if (node.computed) visit(node.property, false);
    } else if (type === "Set") {
      visit(node.value, true);
      visit(node.body, false);
    } else if (type === "ArrayLiteral" || type === "TupleLiteral" || type === "ObjectLiteral") {
      visit(node.value, true);
    } else if (type === "Macro") {
      visit(node.args, true);
      visit(node.body, false);
    } else visit(Object.values(node), isSought);
  };
  visit(program, false);
  const pairs = [...beginnings].flatMap((beginning) => [...ends].map((end) => `${beginning} and ${end}`));
  return [...found, ...pairs];
}

function propertyOf({ type, property }: Node): unknown {
  return type === "MemberExpression" ? (property as Node).value : undefined;
}
