// Writes docs/reference/training-options.md from the schema that validates the options: npx tsx scripts/training-options-page.ts
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { trainingConfigSchema } from "../packages/stateset-agents/src/training/config.ts";
import { profileNames, profiles } from "../packages/stateset-agents/src/training/profiles.ts";
import { pythonConfigKeys } from "../packages/stateset-agents/src/training/python-config.ts";

interface JsonSchema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  properties?: Record<string, JsonSchema>;
}

export function trainingOptionsPage(): string {
  const schema = z.toJSONSchema(trainingConfigSchema, { io: "input" }) as JsonSchema;
  const rows = Object.entries(schema.properties ?? {}).flatMap(([name, option]) => rowsOf(name, option));
  return `# Training options

Every option of \`train()\` that every algorithm has, generated from the schema that validates them. An algorithm's own options stand beside them
([algorithms](algorithms.md)); what belongs to the model (LoRA, threads, sampling) belongs to the agent ([agents](../guides/agents.md)).

| option | default | meaning |
| --- | --- | --- |
${rows.join("\n")}

## Profiles

What a profile changes; your own options win over it.

| profile | learning rate | changes | for |
| --- | --- | --- | --- |
${profileNames
  .map((name) => {
    const { options, learningRateScale, description } = profiles[name];
    const changes = Object.keys(options).length === 0 ? "" : `\`${JSON.stringify(options)}\``;
    return `| \`${name}\` | × ${learningRateScale} | ${changes} | ${description} |`;
  })
  .join("\n")}

## Names of Python configurations

The CLI and \`fromPythonConfig()\` of \`stateset-agents/compat\` also read: ${pythonConfigKeys.map((key) => `\`${key}\``).join(", ")}. They mean what they mean there (TRL counts a batch in conversations, and steps of the optimiser); what cannot be had here is refused with what to give instead.
`;
}

function rowsOf(name: string, option: JsonSchema): string[] {
  const row = `| \`${name}\` | ${shown(option)} | ${[option.description, choices(option)].filter(Boolean).join(" ")} |`;
  if (!option.properties) return [row];
  const heading = option.description ? [`| \`${name}\` | | ${option.description} |`] : [];
  return [...heading, ...Object.entries(option.properties).flatMap(([key, inner]) => rowsOf(`${name}.${key}`, inner))];
}

function choices({ enum: values }: JsonSchema): string {
  return values ? values.map((value) => `\`${JSON.stringify(value)}\``).join(" or ") : "";
}

function shown(option: JsonSchema): string {
  return option.default === undefined ? "" : `\`${JSON.stringify(option.default)}\``;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(
    fileURLToPath(new URL("../docs/reference/training-options.md", import.meta.url)),
    trainingOptionsPage(),
  );
}
