import { processIo } from "./io.ts";
import { runCli } from "./program.ts";

/** The process around runCli: sets the exit status and lets pending output drain. */
export async function runMain(args: readonly string[]): Promise<void> {
  // A closed pipe (`… | head`) is no error. A command that has something to save was told of it, and ends by itself.
  let told = false;
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    told ||= process.listenerCount("SIGHUP") > 0;
    if (!told) process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  // With nobody left to read what went wrong, it cannot be said.
  process.stderr.on("error", () => {});
  process.exitCode = await runCli(args, processIo());
}
