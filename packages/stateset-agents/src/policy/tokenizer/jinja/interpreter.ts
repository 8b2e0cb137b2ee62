/**
 * Runs a parsed template and remembers, for every character it prints, whether the template wrote it or somebody else did.
 *
 * The library does the work: what a template decides, compares, sorts and looks up are plain strings. What is done here is to
 * carry the trace along wherever strings are made: blocks and loops, `~` and `+`, slices, methods and filters, keys of objects.
 * Any other string the library makes counts as foreign as soon as it is read (see evaluate), so a way to make one that is not
 * known here can at worst cost a template one of its own tokens, never give one to foreign text.
 *
 * Besides, some things are done as Python does them and the library does not, where chat templates depend on it.
 */
import { Environment, Interpreter, Template } from "@huggingface/jinja";
import { StatesetError } from "../../../error.ts";
import { concat, marks, type TracedText } from "../traced-text.ts";
import { applyFilter, tracedFilters, traceNumber } from "./filters.ts";
import {
  ArrayValue,
  BooleanValue,
  IntegerValue,
  type Node,
  ObjectValue,
  StringValue,
  UndefinedValue,
  type Value,
} from "./library.ts";
import { callMeasures, comparisonMeasures, cutUp, filterMeasures, isCutUp, isSaid, testMeasures } from "./measuring.ts";
import { foreignValue, TracedObject } from "./objects.ts";
import { printed } from "./printed.ts";
import { ownString, sliceString, TracedString, tracedString } from "./strings.ts";

/** What the library calls by name, and a subclass can therefore take over. */
interface Internals {
  evaluate(node: Node | undefined, environment: unknown): Value;
  evaluateBlock(statements: readonly Node[], environment: unknown): Value;
  evaluateFor(node: Node, environment: unknown): Value;
  evaluateBinaryExpression(node: Node, environment: unknown): Value;
  evaluateUnaryExpression(node: Node, environment: unknown): Value;
  evaluateTestExpression(node: Node, environment: unknown): Value;
  evaluateMemberExpression(node: Node, environment: unknown): Value;
  evaluateCallExpression(node: Node, environment: unknown): Value;
  evaluateSliceExpression(object: Value, node: Node, environment: unknown): Value;
  evaluateArguments(args: readonly Node[], environment: unknown): [Value[], Map<string, Value>];
  applyFilter(operand: Value, filter: Node, environment: unknown): Value;
}

const Base = Interpreter as unknown as new (environment: Environment) => Internals;

/** What a loop has printed so far. */
interface Loop {
  node: Node;
  printed: TracedText[];
}

/** Statements whose value is none of the template's. */
const silent = new Set(["Set", "Macro", "Comment"]);
const arithmetic = new Set(["+", "-", "*", "/", "//", "%", "**"]);
const comparisons = new Set(["==", "!=", "in", "not in"]);
/** In Python these are there whatever keys an object has; a tool may have a parameter called `items`. */
const objectMethods: ReadonlySet<unknown> = new Set(["get", "items", "keys", "values"]);

/** Arguments that are more than a value. */
const inPlace = new Set(["KeywordArgumentExpression", "SpreadExpression", "KeywordSpreadExpression"]);

/** What can be gone through, to Python: also an object, and what is not defined. */
const collections = new Set(["StringValue", "ArrayValue", "ObjectValue", "UndefinedValue"]);
const collectionTests: ReadonlySet<unknown> = new Set(["iterable", "sequence"]);

class TracingInterpreter extends Base {
  readonly #loops: Loop[] = [];
  /** See measuring.ts. */
  measured = false;

  override evaluate(node: Node | undefined, environment: unknown): Value {
    if (node?.type === "Evaluated") return node.value as Value;
    if (node?.type === "StringLiteral") {
      node.traced ??= ownString(node.value as string);
      return node.traced as Value;
    }
    if (node?.type === "ObjectLiteral") return this.#object(node, environment);
    const value = super.evaluate(node, environment);
    return value instanceof StringValue ? tracedString(value) : value;
  }

  override evaluateBlock(statements: readonly Node[], environment: unknown): Value {
    let [text, own] = ["", ""];
    for (const statement of statements) {
      const value = this.evaluate(statement, environment);
      if (value.type === "NullValue" && silent.has(statement.type)) continue;
      const part = value instanceof TracedString ? value : printed(value);
      text += part.text;
      own += part.own;
    }
    const block = { text, own };
    const loop = this.#loops.at(-1);
    if (loop && (statements === loop.node.body || statements === loop.node.defaultBlock)) loop.printed.push(block);
    return new TracedString(block);
  }

  /** The library adds up the texts of a loop's blocks. They have just passed through evaluateBlock(). */
  override evaluateFor(node: Node, environment: unknown): Value {
    const loop: Loop = { node, printed: [] };
    const iterable = node.iterable as Node;
    const [chosen, source] = iterable.type === "SelectExpression" ? [true, iterable.lhs as Node] : [false, iterable];
    const items = this.evaluate(source, environment);
    this.measured ||= isCutUp(items);
    const known = chosen ? { ...iterable, lhs: evaluated(items) } : evaluated(items);
    this.#loops.push(loop);
    try {
      const value = super.evaluateFor({ ...node, iterable: known }, environment);
      const whole = concat(loop.printed);
      return whole.text === value.value ? new TracedString(whole) : value;
    } finally {
      this.#loops.pop();
    }
  }

  override evaluateBinaryExpression(node: Node, environment: unknown): Value {
    const operator = (node.operator as { value: string }).value;
    if (operator !== "~" && !arithmetic.has(operator) && !comparisons.has(operator))
      return super.evaluateBinaryExpression(node, environment);
    const [left, right] = [node.left, node.right].map((side) => this.evaluate(side as Node, environment));
    if (operator === "~") return new TracedString(concat([printed(left!), printed(right!)]));
    if (left instanceof TracedString && right instanceof TracedString && operator === "+")
      return new TracedString(concat([left, right]));
    const known = { ...node, left: evaluated(left!), right: evaluated(right!) };
    if (comparisons.has(operator)) {
      this.measured ||= comparisonMeasures(left!, right!);
      return super.evaluateBinaryExpression(known, environment);
    }
    return traceNumber(super.evaluateBinaryExpression(known, environment), [left!, right!]);
  }

  override evaluateUnaryExpression(node: Node, environment: unknown): Value {
    const argument = this.evaluate(node.argument as Node, environment);
    // To the library an empty list is true here, and false elsewhere.
    if ((node.operator as { value: string }).value === "not") return new BooleanValue(!argument.__bool__().value);
    const value = super.evaluateUnaryExpression({ ...node, argument: evaluated(argument) }, environment);
    return traceNumber(value, [argument]);
  }

  override evaluateTestExpression(node: Node, environment: unknown): Value {
    const operand = this.evaluate(node.operand as Node, environment);
    const test = (node.test as Node).value;
    if (collectionTests.has(test)) return new BooleanValue(collections.has(operand.type) !== node.negate);
    this.measured ||= testMeasures(test, operand);
    return super.evaluateTestExpression({ ...node, operand: evaluated(operand) }, environment);
  }

  override evaluateMemberExpression(node: Node, environment: unknown): Value {
    const property = node.property as Node;
    const named = !node.computed && !objectMethods.has(property.value);
    if (named && property.value !== "length") return super.evaluateMemberExpression(node, environment);
    const object = this.evaluate(node.object as Node, environment);
    this.measured ||= named && (isSaid(object) || isCutUp(object));
    if (!node.computed && !named && object instanceof ObjectValue)
      return object.builtins.get(property.value as string)!;
    if (!node.computed || property.type === "SliceExpression")
      return super.evaluateMemberExpression({ ...node, object: evaluated(object) }, environment);
    const key = this.evaluate(property, environment);
    this.measured ||= isSaid(object);
    if (object instanceof StringValue && key instanceof IntegerValue)
      return sliceString(tracedString(object), key.value, key.value === -1 ? undefined : key.value + 1);
    // Nothing is found under what is no name.
    if (object instanceof ObjectValue && !(key instanceof StringValue)) return new UndefinedValue(undefined);
    const known = { ...node, object: evaluated(object), property: evaluated(key) };
    return super.evaluateMemberExpression(known, environment);
  }

  override evaluateSliceExpression(object: Value, node: Node, environment: unknown): Value {
    if (!(object instanceof StringValue)) {
      const part = super.evaluateSliceExpression(object, node, environment);
      return isCutUp(object) ? cutUp(part) : part;
    }
    this.measured ||= isSaid(object);
    const [from, to, step] = [node.start, node.stop, node.step].map((part) => {
      const { value } = this.evaluate(part as Node | undefined, environment);
      if (value === undefined || value === null) return undefined;
      if (Number.isInteger(value)) return value as number;
      throw new TypeError("a slice goes from one whole number to another");
    });
    return sliceString(tracedString(object), from, to, step);
  }

  override evaluateCallExpression(node: Node, environment: unknown): Value {
    const { type, property } = node.callee as Node;
    if (type !== "MemberExpression") return super.evaluateCallExpression(node, environment);
    const method = (property as Node).value;
    const args = (node.args as Node[]).map((arg) =>
      inPlace.has(arg.type) ? arg : evaluated(this.evaluate(arg, environment)),
    );
    this.measured ||= callMeasures(method, args[0]?.value);
    const made = super.evaluateCallExpression({ ...node, args }, environment);
    return method === "split" && made instanceof ArrayValue && made.value.some(isSaid) ? cutUp(made) : made;
  }

  override applyFilter(operand: Value, filter: Node, environment: unknown): Value {
    const called = filter.type === "CallExpression";
    const name = (called ? (filter.callee as Node).value : filter.value) as string;
    if (tracedFilters.has(name)) {
      const [places, names] = this.evaluateArguments(called ? (filter.args as Node[]) : [], environment);
      const value = applyFilter(operand, name, { places, names });
      if (value) return value;
    }
    this.measured ||= filterMeasures(name, operand);
    const result = super.applyFilter(operand, filter, environment);
    return name === "length" ? result : traceNumber(result, [operand]);
  }

  #object(node: Node, environment: unknown): Value {
    const entries = new Map<string, Value>();
    const own = new Set<string>();
    for (const [name, part] of node.value as ReadonlyMap<Node, Node>) {
      const key = this.evaluate(name, environment);
      if (!(key instanceof TracedString)) throw new TypeError(`keys of objects are strings, not ${key.type}`);
      entries.set(key.text, this.evaluate(part, environment));
      if (key.own === key.text) own.add(key.text);
      else own.delete(key.text);
    }
    return new TracedObject(entries, own);
  }
}

function evaluated(value: Value): Node {
  return { type: "Evaluated", value };
}

/** The text a parsed template prints. */
export interface Interpreted extends TracedText {
  /** Whether it decided by more than strings that it looked for (measuring.ts). */
  measured: boolean;
}

export function interpret(program: object, environment: Environment): Interpreted {
  const interpreter = new TracingInterpreter(environment);
  const { text, own } = tracedString(interpreter.evaluate(program as Node, environment));
  return { text, own, measured: interpreter.measured };
}

/**
 * What is taken over here the library does not promise to keep. If another version did not call it, no template would get its
 * control tokens; that must not come as a surprise.
 */
export function checkLibrary(): void {
  const environment = new Environment();
  environment.setVariable("it", foreignValue({ key: "zz" }, marks.said) as ReturnType<Environment["set"]>);
  const { parsed } = new Template("{% for k, v in it.items() %}{{ 'x' ~ v[:1] + 'y' | trim }}{% endfor %}");
  const { text, own } = interpret(parsed, environment);
  if (text === "xzy" && own === `x${marks.said}y`) return;
  throw new StatesetError(
    "TOKENIZER_INVALID",
    "The installed @huggingface/jinja runs templates in a way not known here.",
    {
      hint: "Install the version that stateset-agents names in its package.json.",
    },
  );
}
