import { z } from "zod";
import { parseOptions } from "../options.ts";

/**
 * Checks the options of a built-in reward: `name` and `weight`, which all have, and its own.
 * Misspelt ones are refused with the nearest valid one.
 */
export function parseRewardOptions<Shape extends z.ZodRawShape>(
  options: object,
  where: string,
  defaultName: string,
  own: Shape,
): z.output<z.ZodObject<Shape>> & { name: string; weight: number } {
  const schema = z.strictObject({
    ...own,
    name: z.string().min(1).default(defaultName),
    weight: z.number().default(1),
  });
  return parseOptions(schema, options, where) as z.output<z.ZodObject<Shape>> & { name: string; weight: number };
}
