import type { Command } from "commander";
import { packageVersion } from "../../package-version.ts";
import { type CliIo, print, printJson } from "../io.ts";

export function addVersion(program: Command, io: CliIo): void {
  program
    .command("version")
    .description("Print the versions of this package, Node and the platform.")
    .option("--json", "print one JSON object")
    .action((options: { json?: boolean }) => {
      const facts = {
        version: packageVersion(),
        node: process.versions.node,
        platform: `${process.platform}-${process.arch}`,
      };
      if (options.json) printJson(io, facts);
      else print(io, `stateset-agents ${facts.version} (Node ${facts.node}, ${facts.platform})`);
    });
}
