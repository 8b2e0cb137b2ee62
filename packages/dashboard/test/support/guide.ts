/** docs/guides/dashboard.md as a program: the files it shows and the commands it trains with. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const guide = readFileSync(new URL("../../../../docs/guides/dashboard.md", import.meta.url), "utf8");

/** The blocks whose first line names them in a comment. */
const files = [...guide.matchAll(/^```(?:ts|yaml)\n(?:\/\/|#) (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => ({
  name: name!,
  text: text!,
}));

/** Arguments of each `train` that a reader is told to run. */
export const trainings = [...guide.matchAll(/^\$ npx stateset-agents (train .+)$/gm)].map(([, args]) =>
  args!.split(" "),
);

export function writeGuideFiles(folder: string): void {
  for (const { name, text } of files) writeFileSync(join(folder, name), text);
}
