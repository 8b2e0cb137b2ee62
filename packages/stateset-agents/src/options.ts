import type { z } from "zod";
import { type ErrorCode, StatesetError } from "./error.ts";
import { didYouMean } from "./suggest.ts";

/**
 * Validates an options object against a strict zod schema.
 * Unknown keys are named, with the nearest valid one; `where` says whose options they are ("train()", "agent.lora", …).
 */
export function parseOptions<T extends z.ZodType>(
  schema: T,
  value: unknown,
  where: string,
  code: ErrorCode = "INVALID_OPTION",
): z.output<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0]!;
  const path = [where, ...issue.path.map(String)].join(".");
  if (issue.code === "unrecognized_keys") {
    const key = issue.keys[0]!;
    throw new StatesetError(code, `Unknown option "${key}" in ${path}.`, {
      hint: didYouMean(key, keysAt(schema, issue.path, value)),
    });
  }
  throw new StatesetError(code, `Invalid value for ${path}: ${issue.message}.`);
}

/** The keys a schema allows at a path; looks through optionals, defaults, arrays and unions. */
function keysAt(schema: unknown, path: readonly PropertyKey[], value: unknown): string[] {
  const def = (schema as { _zod?: { def: Record<string, unknown> } })._zod?.def;
  if (!def) return [];
  const [step, ...rest] = path;
  switch (def.type) {
    case "object": {
      const shape = def.shape as Record<string, unknown>;
      if (step === undefined) return Object.keys(shape);
      return keysAt(shape[String(step)], rest, (value as Record<PropertyKey, unknown> | undefined)?.[step]);
    }
    case "array":
      return keysAt(def.element, rest, undefined);
    case "union":
      return [...new Set((def.options as unknown[]).flatMap((option) => keysAt(option, path, value)))];
    default:
      return def.innerType || def.in ? keysAt(def.innerType ?? def.in, path, value) : [];
  }
}
