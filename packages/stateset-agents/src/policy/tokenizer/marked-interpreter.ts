import { Interpreter } from "@huggingface/jinja";
import { unitsOf } from "./marks.ts";

/** What the library knows of a value, and of the nodes that read part of one. */
interface Value {
  type: string;
  value: unknown;
}
interface Node {
  type: string;
  [key: string]: unknown;
}
interface Internals {
  evaluate(node: Node, environment: unknown): Value;
  evaluateMemberExpression(node: Node, environment: unknown): Value;
}

const inherited = Interpreter.prototype as unknown as Internals;

/** Counts the characters of a string without the marks among them: `content[:7]` are its first seven, each with its own marks. */
class MarkedInterpreter extends (Interpreter as unknown as new (environment: unknown) => Internals) {
  override evaluate(node: Node, environment: unknown): Value {
    return node?.type === "Evaluated" ? (node.value as Value) : inherited.evaluate.call(this, node, environment);
  }

  override evaluateMemberExpression(node: Node, environment: unknown): Value {
    if (!node.computed) return inherited.evaluateMemberExpression.call(this, node, environment);
    const object = this.evaluate(node.object as Node, environment);
    const property = node.property as Node;
    if (object.type === "StringValue") {
      const make = object.constructor as new (text: string | undefined) => Value;
      const number = (part: unknown) => this.evaluate(part as Node, environment).value as number | undefined;
      const units = unitsOf(object.value as string);
      if (property.type === "SliceExpression") {
        return new make(slice(units, number(property.start), number(property.stop), number(property.step)).join(""));
      }
      const at = this.evaluate(property, environment);
      if (at.type === "IntegerValue") return new make(units.at(at.value as number));
    }
    // Evaluated once, however deep the expression.
    return inherited.evaluateMemberExpression.call(
      this,
      { ...node, object: { type: "Evaluated", value: object } },
      environment,
    );
  }
}

/** As in Python. */
function slice<T>(items: readonly T[], start?: number, stop?: number, step = 1): T[] {
  const from = (index: number | undefined, ahead: number, back: number) => {
    if (index === undefined) return step > 0 ? ahead : back;
    const place = index < 0 ? index + items.length : index;
    return step > 0 ? Math.min(Math.max(place, 0), items.length) : Math.min(Math.max(place, -1), items.length - 1);
  };
  const [first, end] = [from(start, 0, items.length - 1), from(stop, items.length, -1)];
  const taken: T[] = [];
  for (let i = first; step > 0 ? i < end : i > end; i += step) taken.push(items[i]!);
  return taken;
}

/** The text a parsed template prints. */
export function interpret(program: object, environment: unknown): string {
  const interpreter = new MarkedInterpreter(environment) as unknown as Interpreter;
  return String(interpreter.run(program as Parameters<Interpreter["run"]>[0]).value);
}
