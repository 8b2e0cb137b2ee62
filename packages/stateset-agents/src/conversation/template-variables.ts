import { z } from "zod";
import { StatesetError } from "../error.ts";

/** What a chat template is told beside the conversation, by name: `{ enable_thinking: false }`. JSON values. */
export type TemplateVariables = Readonly<Record<string, unknown>>;

/** What templates are given anyway, and what their language has. Names of special tokens (`eos_token`, …) are taken too. */
const taken = new Set([
  ..."messages tools add_generation_prompt strftime_now raise_exception".split(" "),
  ..."true false none True False None range namespace loop caller varargs kwargs".split(" "),
]);

export const templateVariablesSchema = z.record(z.string(), z.json()).superRefine((variables, context) => {
  const name = Object.keys(variables).find(isTaken);
  if (name !== undefined) context.addIssue({ code: "custom", message: takenMessage(name) });
});

/** Where they come in without a schema. */
export function checkTemplateVariables(variables: TemplateVariables): void {
  const name = Object.keys(variables).find(isTaken);
  if (name !== undefined) {
    throw new StatesetError("INVALID_OPTION", `Template variables: ${takenMessage(name)}.`, {
      hint: "Pass messages and tools as such, and choose another name for anything else.",
    });
  }
}

function isTaken(name: string): boolean {
  return taken.has(name) || name.endsWith("_token");
}

function takenMessage(name: string): string {
  return `"${name}" cannot be set, because templates are given it by the library`;
}

/** The more specific ones win, name by name. */
export function mergeVariables(...from: (TemplateVariables | undefined)[]): TemplateVariables | undefined {
  const given = from.filter((variables) => variables !== undefined);
  return given.length === 0 ? undefined : Object.assign({}, ...given);
}
