import type { Command } from "commander";
import { checkpointHelp } from "../checkpoint-path.ts";
import { engineOption, gpusOption } from "../engine-options.ts";
import type { CliIo } from "../io.ts";
import type { ServeFlags } from "../serve/run-serve.ts";
import { bytes, countingNumber, duration, wholeNumber } from "../values.ts";

export function addServe(program: Command, io: CliIo): void {
  program
    .command("serve")
    .description("Serve agents behind an OpenAI-compatible API.")
    .argument("[agent...]", `what to serve: ${checkpointHelp}; or a hub id (default: the configured model)`)
    .option("--model <name=agent...>", "an agent under a name of your own")
    .option("-c, --config <file>", "the configuration that names the model")
    .option("--host <address>", "where to listen; beyond this machine only with a key", "127.0.0.1")
    .option("--port <n>", "the port; 0 takes a free one", wholeNumber, 8000)
    .option("--api-key <key>", "a key that callers must send (better: STATESET_API_KEY, which no process list shows)")
    .option("--auth-token <key>", "the same under another name")
    .option("--keys [file]", "the keys of `keys create` (default: their usual file)")
    .option("--slots <n>", "replies that are sampled together", countingNumber)
    .option("--cache <size>", "memory for the keys and values of conversations, such as 2GiB", bytes)
    .option("--max-waiting <n>", "requests that may wait; one more is told to come later (default: 512)", wholeNumber)
    .option("--deadline <time>", "after which nobody waits for a reply, such as 30s (default: none)", duration)
    .option("--drain <time>", "how long running replies may take when the server ends (default: 30s)", duration)
    .addOption(engineOption())
    .addOption(gpusOption())
    .option("--threads <n>", "threads of the embedded engine", countingNumber)
    .option("--allow-host <name...>", "more names that requests may be for, beside this machine's own")
    .option(
      "--response-cache <n>",
      "keep so many replies of greedy and seeded requests, for the same key",
      countingNumber,
    )
    .option("--log <where>", "JSON lines of requests: stderr, stdout, none or a file (default: stderr)")
    .option("--log-content", "write into the log what was asked and answered")
    .option("--redact <pattern...>", "regular expressions of what must never be in the log, beside keys")
    .option("--alert <url>", "tell this webhook of a full queue, failures or a failed engine")
    .option("--no-ui", "serve the API alone, without the dashboard at /ui/")
    .option("--ui-runs <folder...>", "whose runs the dashboard shows (default: runs)")
    .option("--stub", "serve scripted replies instead of a model")
    .option("--json", "print what is served, and where, as JSON")
    .addHelpText(
      "after",
      `
Ctrl-C and SIGTERM end it: no new requests are taken, those that run are finished, the rest are told.
Keys: npx stateset-agents keys create --name me, then npx stateset-agents serve --keys.`,
    )
    .action(async (agents: string[], flags: ServeFlags) => {
      const { runServe } = await import("../serve/run-serve.ts");
      await runServe(agents, flags, io);
    });
}
