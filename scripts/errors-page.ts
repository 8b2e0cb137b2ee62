// Writes docs/reference/errors.md from the table of error codes. Run with tsx; a test checks that the page is current.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { errorCodes } from "../packages/stateset-agents/src/error.ts";

const page = fileURLToPath(new URL("../docs/reference/errors.md", import.meta.url));

export function errorsPage(): string {
  const rows = Object.entries(errorCodes).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`);
  return `# Errors

Everything this library throws is a \`StatesetError\` with a \`code\`, a message that says what happened and where, and often a \`hint\` that says what to do.
Test with \`StatesetError.isInstance(error)\`: it also holds when two copies of the library are loaded.

\`\`\`ts
import { MultiTurnAgent, StatesetError } from "stateset-agents";

try {
  await MultiTurnAgent.fromModel("./no-such-model");
} catch (error) {
  if (!StatesetError.isInstance(error)) throw error;
  console.log(error.code, error.message); // MODEL_NOT_FOUND …
}
\`\`\`

| code | meaning |
|---|---|
${rows.join("\n")}
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(page, errorsPage());
  console.log(`wrote ${page} (${readFileSync(page, "utf8").length} characters)`);
}
