import { type CliIo, colorsOf, print } from "../io.ts";
import { commandLine } from "./place.ts";

/** Commands that go on from here, as they can be pasted. */
export function printNext(commands: readonly (readonly string[])[], io: CliIo): void {
  print(io, "", colorsOf(io).dim("Next:"), ...commands.map((words) => `  ${commandLine(words)}`));
}
