import { messageOf, StatesetError } from "../../error.ts";

/** Fields that hold nothing but a secret, whatever it looks like. */
const secretFields = /^(?:(?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?api[-_]?key|password|secret)$/i;

/** What secrets look like in any text, and what is written in their place. */
const secretTexts: readonly (readonly [RegExp, string])[] = [
  [/sk-ss-[\w-]+/gi, "[key]"],
  // Keys of other services, as judges have them.
  [/(?<![a-z0-9])sk-[\w-]{16,}/gi, "[key]"],
  [/(?<![a-z0-9])hf_[a-z0-9]{16,}/gi, "[key]"],
  [/(authorization["']?\s*[:=]\s*["']?)(?:(?:bearer|basic)\s+)?[^\s"',}]+/gi, "$1[key]"],
  [/\b(bearer|basic)\s+[\w.~+/=-]{6,}/gi, "$1 [key]"],
  [/(:\/\/)[^\s/@]+@/g, "$1[credentials]@"],
];

/** A text without what looks like a secret in it. */
export function withoutSecrets(text: string): string {
  return replaced(text, secretTexts);
}

function replaced(text: string, rules: readonly (readonly [RegExp, string])[]): string {
  return rules.reduce((rest, [pattern, shown]) => rest.replace(pattern, shown), text);
}

/** What a line may hold: with content a whole request, which the server has limited already. */
const whole = { text: Number.POSITIVE_INFINITY, depth: 64, values: 100_000 };
const short = { text: 2000, depth: 8, values: 1000 };

export interface RedactOptions {
  /** Regular expressions; what they match becomes "[redacted]". */
  patterns?: readonly string[];
  /** Whole texts, and the messages of errors, which may quote what a user said. */
  content?: boolean;
}

/**
 * Plain data of anything, ready to be written: every string in it, keys of objects included, has been through the patterns. Of an
 * error stays what it is, where it came from and, with `content`, what it says.
 */
export function redactWith({ patterns = [], content = false }: RedactOptions): (value: unknown) => unknown {
  const most = content ? whole : short;
  const rules = [...secretTexts, ...patterns.map((source) => [patternOf(source), "[redacted]"] as const)];
  const text = (given: string): string => {
    const clean = replaced(given, rules);
    return clean.length <= most.text ? clean : `${clean.slice(0, most.text)}…`;
  };
  const errorOf = (error: Error): Record<string, unknown> => ({
    type: error.name,
    code: (error as { code?: unknown }).code,
    ...(content && { message: error.message }),
    stack: framesOf(error),
    cause: error.cause,
  });
  return (given) => {
    let values = 0;
    const plain = (value: unknown, depth: number): unknown => {
      if (typeof value === "string") return text(value);
      if (typeof value === "bigint") return String(value);
      if (typeof value !== "object" || value === null) return value;
      if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
      if (value instanceof Date || value instanceof URL) return text(String(value.toJSON()));
      if (depth === most.depth || values > most.values) return "[…]";
      const entries = Object.entries(value instanceof Error ? errorOf(value) : value);
      values += entries.length;
      if (Array.isArray(value)) return value.map((one) => plain(one, depth + 1));
      return Object.fromEntries(
        entries.map(([key, inner]) => [
          text(key),
          secretFields.test(key) && inner !== undefined ? "[redacted]" : plain(inner, depth + 1),
        ]),
      );
    };
    return plain(given, 0);
  };
}

/** The places of a stack without the message above them, which may span lines and look like one of them. */
function framesOf({ stack = "", message }: Error): string[] {
  const at = stack.indexOf(message);
  // A message that was changed later leaves the old one in the stack, of unknown length.
  if (at < 0) return [];
  const lines = stack.slice(at + message.length).split("\n");
  return lines.filter((line) => /^\s+at /.test(line)).map((line) => line.trim());
}

/** `where` it was given, for whoever is told that it is none. */
export function patternOf(source: string, where = "log: redact"): RegExp {
  try {
    return new RegExp(source, "g");
  } catch (cause) {
    throw new StatesetError("INVALID_OPTION", `${where}: ${messageOf(cause)}.`, {
      hint: "Write a regular expression of JavaScript, with \\ before characters that mean something in one.",
      cause,
    });
  }
}
