import { processIo } from "./io.ts";
import { runCli } from "./program.ts";

/** The process around runCli: sets the exit status and lets pending output drain. */
export async function runMain(args: readonly string[]): Promise<void> {
  // A closed pipe (`… | head`) is no error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
  process.exitCode = await runCli(args, processIo());
}
