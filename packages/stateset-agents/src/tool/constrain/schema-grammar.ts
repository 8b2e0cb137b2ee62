/**
 * JSON Schema as grammar: what can be written is valid, though not all that is valid can be written. Properties come in the order of the
 * schema and only those it knows; lengths, items and depth are bounded. A keyword that cannot be held is refused by name.
 */
import { StatesetError } from "../../error.ts";
import { compileSchema, type JsonSchema } from "../schema/compile-schema.ts";
import { areDisjoint, valuesOf } from "./disjoint.ts";
import { choice, impossible, list, nothing, optional, sequence, text } from "./grammar.ts";
import { type ConstrainLimits, patternLength } from "./limits.ts";
import { mergeSchemas } from "./merge-schemas.ts";
import type { Grammar, Place } from "./nfa.ts";
import { integerGrammar, isEmpty, numberGrammar } from "./number-grammar.ts";
import { patternGrammar } from "./regex-grammar.ts";
import { stringGrammar } from "./string-grammar.ts";
import { unsupported } from "./unsupported.ts";

/** How a language writes values. */
export interface Dialect {
  print(value: unknown): string;
}

export const json: Dialect = { print: (value) => JSON.stringify(value) };

/** After a comma or a colon, as it likes. */
export const space = optional(" ");
export const comma = sequence(",", space);
export const colon = sequence(":", space);

/** Keywords that would have to be held and are not. */
const refused = [
  ...["not", "if", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies"],
  ...["contains", "$dynamicRef", "$recursiveRef"],
];

/** Of which type a schema speaks that does not say so. */
const hints: Readonly<Record<string, readonly string[]>> = {
  object: ["properties", "required", "additionalProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems"],
  string: ["pattern", "minLength", "maxLength", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
};
const scalars = ["string", "number", "boolean", "null"];

/** How often each reference is being followed. */
type Depths = ReadonlyMap<string, number>;

export class SchemaReader {
  readonly #root: JsonSchema;
  readonly #limits: ConstrainLimits;
  readonly #dialect: Dialect;
  readonly #name: string;

  /** `name` says whose schema it is, in errors. */
  constructor(root: JsonSchema, limits: ConstrainLimits, dialect: Dialect, name: string) {
    this.#root = root;
    this.#limits = limits;
    this.#dialect = dialect;
    this.#name = name;
  }

  /** The whole schema's value. */
  whole(): Grammar {
    return this.#value(this.#root, new Map([["#", 1]]), "#");
  }

  /** The whole schema's object, written in another way. */
  as(written: ObjectForm): Grammar {
    return (nfa, to) => {
      const depths = new Map([["#", 1]]);
      const { schema } = this.#resolved(this.#root, depths, "#");
      for (const name of [...refused, "anyOf", "oneOf", "enum", "const"]) {
        if (schema[name] !== undefined)
          throw unsupported(`"${name}" of all arguments together, in this format`, this.#where("#"));
      }
      return this.#object(schema, depths, "#", written)(nfa, to);
    };
  }

  #where(at: string): string {
    return `${this.#name}, at ${at}`;
  }

  /** Read when it is built, so that what a stranger's schema unfolds to is counted as it unfolds. */
  #value(schema: unknown, depths: Depths, at: string): Grammar {
    return (nfa, to) => {
      nfa.work(1 + depths.size);
      if (to === nfa.dead || schema === false) return nfa.dead;
      return this.#read(schema, depths, at)(nfa, to);
    };
  }

  #read(given: unknown, above: Depths, at: string): Grammar {
    const { schema, depths, tooDeep } = this.#resolved(given, above, at);
    if (tooDeep) return impossible;
    const values = valuesOf(schema);
    if (values) return this.#oneOfValues(values, schema, at);
    for (const name of ["anyOf", "oneOf"] as const) {
      if (schema[name] !== undefined) return this.#alternatives(name, schema, depths, at);
    }
    for (const name of refused) {
      if (schema[name] !== undefined) throw unsupported(`"${name}"`, this.#where(at));
    }
    const types = schema.type === undefined ? impliedTypes(schema) : [schema.type as string | string[]].flat();
    return choice(...types.map((type) => this.#typed(type, schema, depths, at)));
  }

  /** With its references and `allOf` merged into it. */
  #resolved(given: unknown, depths: Depths, at: string): { schema: JsonSchema; depths: Depths; tooDeep: boolean } {
    let schema: JsonSchema = typeof given === "object" && given !== null ? (given as JsonSchema) : {};
    let within = depths;
    for (let steps = 0; steps < 64; steps++) {
      if (typeof schema.$ref === "string") {
        const { $ref, ...rest } = schema;
        const depth = (within.get($ref as string) ?? 0) + 1;
        if (depth > this.#limits.maxDepth) return { schema, depths: within, tooDeep: true };
        within = new Map([...within, [$ref as string, depth]]);
        const target = this.#target($ref as string, at);
        if (target === false) return { schema, depths: within, tooDeep: true };
        schema = mergeSchemas(target === true ? {} : target, rest, this.#where(at));
      } else if (Array.isArray(schema.allOf)) {
        const { allOf, ...rest } = schema;
        const [first, ...others] = allOf as (JsonSchema | boolean)[];
        if (first === false) return { schema, depths: within, tooDeep: true };
        const more = others.length > 0 ? { allOf: others } : {};
        const inner = first === true || first === undefined ? {} : first;
        const both = mergeSchemas({ ...rest }, withoutAllOf(inner), this.#where(at));
        const nested = (inner as JsonSchema).allOf as unknown[] | undefined;
        const left = [...(nested ?? []), ...(more.allOf ?? [])];
        schema = { ...both, ...(left.length > 0 && { allOf: left }) };
      } else return { schema, depths: within, tooDeep: false };
    }
    throw unsupported("a chain of references without end", this.#where(at));
  }

  #target(ref: string, at: string): JsonSchema | boolean {
    const places = ref === "#" ? [] : /^#\//.test(ref) ? ref.slice(2).split("/") : undefined;
    let found: unknown = this.#root;
    for (const place of places ?? [""]) {
      const key = decodeURIComponent(place).replaceAll("~1", "/").replaceAll("~0", "~");
      found =
        typeof found === "object" && found !== null && Object.hasOwn(found, key) ? Reflect.get(found, key) : undefined;
    }
    if (typeof found === "boolean" || (typeof found === "object" && found !== null))
      return found as JsonSchema | boolean;
    throw unsupported(`the reference "${ref}"`, this.#where(at));
  }

  #oneOfValues(values: readonly unknown[], schema: JsonSchema, at: string): Grammar {
    const { $defs: _, definitions: __, ...rest } = schema;
    const plain = Object.keys(rest).every((name) => name === "enum" || name === "const" || name === "description");
    const check = plain ? () => [] : compileSchema(rest, this.#where(at));
    const fitting = values.filter((value) => check(value).length === 0);
    return choice(...fitting.map((value) => text(this.#dialect.print(value))));
  }

  #alternatives(name: "anyOf" | "oneOf", schema: JsonSchema, depths: Depths, at: string): Grammar {
    const { [name]: given, ...rest } = schema;
    const options = (given as unknown[]).filter((one) => one !== false);
    if (name === "oneOf") this.#requireDisjoint(options, depths, at);
    return choice(
      ...options.map((one, i) => {
        const where = `${at}/${name}/${i}`;
        if (Object.keys(rest).length === 0) return this.#value(one, depths, where);
        return this.#value({ allOf: [rest, one] }, depths, where);
      }),
    );
  }

  #requireDisjoint(options: readonly unknown[], depths: Depths, at: string): void {
    const resolve = (schema: unknown) => this.#resolved(schema, depths, at).schema;
    const resolved = options.map(resolve);
    // Comparing each with each: no more than that.
    const many = resolved.length > 200;
    if (many || resolved.some((one, i) => resolved.slice(i + 1).some((other) => !areDisjoint(one, other, resolve)))) {
      throw unsupported(
        '"oneOf" whose alternatives may both fit (say anyOf, or give each a property of another const)',
        this.#where(at),
      );
    }
  }

  #typed(type: string, schema: JsonSchema, depths: Depths, at: string): Grammar {
    switch (type) {
      case "object":
        return this.#object(schema, depths, at);
      case "array":
        return this.#array(schema, depths, at);
      case "string":
        return this.#string(schema, at);
      case "integer":
      case "number":
        return this.#number(type, schema, at);
      case "boolean":
        return choice(this.#dialect.print(true), this.#dialect.print(false));
      case "null":
        return text(this.#dialect.print(null));
      default:
        throw unsupported(`the type ${JSON.stringify(type)}`, this.#where(at));
    }
  }

  #object(schema: JsonSchema, depths: Depths, at: string, written = jsonObject): Grammar {
    const {
      properties = {},
      required = [],
      additionalProperties,
    } = schema as {
      properties?: Record<string, unknown>;
      required?: readonly string[];
      additionalProperties?: unknown;
    };
    const names = [...new Set([...Object.keys(properties), ...required])];
    if (names.length === 0 && additionalProperties !== undefined && additionalProperties !== false) {
      throw unsupported(
        '"additionalProperties" without "properties": only keys that the schema names are written',
        this.#where(at),
      );
    }
    if (((schema.minProperties as number | undefined) ?? 0) > required.length)
      throw unsupported('"minProperties"', this.#where(at));
    if (((schema.maxProperties as number | undefined) ?? Infinity) < names.length)
      throw unsupported('"maxProperties"', this.#where(at));
    const values = names.map((name) => {
      const own = Object.hasOwn(properties, name) ? properties[name] : additionalProperties === false ? false : {};
      return this.#value(own, depths, `${at}/properties/${name}`);
    });
    const { open, close, key } = written;
    return (nfa, to) => {
      // From the last to the first: where it goes on with one written before, and with none.
      let [after, before]: [Place, Place] = [text(close)(nfa, to), text(close)(nfa, to)];
      for (let i = names.length - 1; i >= 0; i--) {
        const value = values[i]!(nfa, after);
        const first = value === nfa.dead ? value : key(names[i]!)(nfa, value);
        const further = first === nfa.dead ? first : comma(nfa, first);
        const mustBe = required.includes(names[i]!);
        after = mustBe ? further : nfa.either(further, after);
        before = mustBe ? first : nfa.either(first, before);
      }
      return before === nfa.dead ? before : text(open)(nfa, before);
    };
  }

  #array(schema: JsonSchema, depths: Depths, at: string): Grammar {
    const { minItems = 0, maxItems = Infinity } = schema as { minItems?: number; maxItems?: number };
    // Draft 7 has its tuples in `items`.
    const tuple = (schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : [])) as readonly unknown[];
    const items = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
    const most = Math.max(minItems, Math.min(maxItems, Math.max(this.#limits.maxItems, tuple.length)));
    if (minItems > maxItems) return impossible;
    if (schema.uniqueItems === true && most > 1) throw unsupported('"uniqueItems"', this.#where(at));
    const item = (i: number) =>
      this.#value(
        i < tuple.length ? tuple[i] : (items ?? {}),
        depths,
        `${at}/${i < tuple.length ? `prefixItems/${i}` : "items"}`,
      );
    if (tuple.length === 0) return sequence("[", list(item(0), comma, minItems, most), "]");
    const parts = Array.from({ length: most }, (_, i) => i);
    const content = parts.reduceRight<Grammar>((rest, i) => {
      const some = sequence(i > 0 ? comma : nothing, item(i), rest);
      return i < minItems ? some : optional(some);
    }, nothing);
    return sequence("[", content, "]");
  }

  #string(schema: JsonSchema, at: string): Grammar {
    const {
      minLength = 0,
      maxLength = Infinity,
      pattern,
    } = schema as {
      minLength?: number;
      maxLength?: number;
      pattern?: string;
    };
    if (minLength > maxLength) return impossible;
    const most = Math.max(minLength, Math.min(maxLength, this.#limits.maxLength));
    if (pattern === undefined) return stringGrammar(minLength, most);
    const where = this.#where(at);
    const longest = most === Infinity ? Math.max(minLength, patternLength) : most;
    return (nfa, to) => {
      const place = patternGrammar(pattern, minLength, longest, where)(nfa, to);
      if (place !== nfa.dead) return place;
      throw new StatesetError(
        "INVALID_OPTION",
        `No string of at most ${longest} characters fits the pattern ${JSON.stringify(pattern)} (${where}).`,
        {
          hint: "Raise constrain.maxLength, or correct the pattern.",
        },
      );
    };
  }

  #number(type: "integer" | "number", schema: JsonSchema, at: string): Grammar {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema as Record<
      string,
      number | undefined
    >;
    if (multipleOf !== undefined && !(type === "integer" && multipleOf === 1))
      throw unsupported('"multipleOf"', this.#where(at));
    const aboveMin = exclusiveMinimum !== undefined && !(minimum !== undefined && minimum > exclusiveMinimum);
    const belowMax = exclusiveMaximum !== undefined && !(maximum !== undefined && maximum < exclusiveMaximum);
    const bounds = {
      min: aboveMin ? exclusiveMinimum : minimum,
      max: belowMax ? exclusiveMaximum : maximum,
      aboveMin,
      belowMax,
    };
    const grammar = type === "integer" ? integerGrammar(bounds) : numberGrammar(bounds);
    if (grammar === impossible && !isEmpty(bounds, type)) {
      const { min = "−∞", max = "∞" } = bounds;
      throw unsupported(`numbers from ${min} to ${max}, which take more than 15 digits`, this.#where(at));
    }
    return grammar;
  }
}

/** How an object is written. */
export interface ObjectForm {
  open: string;
  close: string;
  key(name: string): Grammar;
}

const jsonObject: ObjectForm = {
  open: "{",
  close: "}",
  key: (name) => sequence(text(JSON.stringify(name)), colon),
};

function impliedTypes(schema: JsonSchema): readonly string[] {
  const implied = Object.keys(hints).filter((type) => hints[type]!.some((keyword) => schema[keyword] !== undefined));
  return implied.length > 0 ? implied : scalars;
}

function withoutAllOf({ allOf: _, ...rest }: JsonSchema): JsonSchema {
  return rest;
}
