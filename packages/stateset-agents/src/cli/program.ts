import { Command } from "commander";
import { packageVersion } from "../package-version.ts";
import { didYouMean, nearest } from "../suggest.ts";
import { addBestOfN } from "./commands/best-of-n.ts";
import { addChat } from "./commands/chat.ts";
import { addCompletion } from "./commands/completion.ts";
import { addDashboard } from "./commands/dashboard.ts";
import { addDemo } from "./commands/demo.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addDpo } from "./commands/dpo.ts";
import { addEvaluate } from "./commands/evaluate.ts";
import { addExport } from "./commands/export.ts";
import { addInit } from "./commands/init.ts";
import { addKeys } from "./commands/keys.ts";
import { addRewardModel } from "./commands/reward-model.ts";
import { addRuns } from "./commands/runs.ts";
import { addServe } from "./commands/serve.ts";
import { addSetupGpu } from "./commands/setup-gpu.ts";
import { addSft } from "./commands/sft.ts";
import { addTrain } from "./commands/train.ts";
import { addVersion } from "./commands/version.ts";
import type { ExitCode } from "./exit-codes.ts";
import { CliExit, type JsonFailure, reportFailure } from "./failure.ts";
import { type CliIo, colorsOf, printJson, processIo } from "./io.ts";

/** The whole command line, as data: parsing, help, completion and docs/reference/cli.md all come from it. `json`: errors are JSON. */
export function createProgram(io: CliIo, json = false): Command {
  const program = new Command("stateset-agents")
    .description("Train language-model agents by reinforcement learning on whole conversations.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show what a command does")
    .helpCommand("help [command]", "show what a command does")
    .showSuggestionAfterError(false)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      getOutHelpWidth: () => io.stdout.columns ?? 100,
      getErrHelpWidth: () => io.stderr.columns ?? 100,
    });
  const commands = [
    addDemo,
    addInit,
    addTrain,
    addSft,
    addDpo,
    addRewardModel,
    addBestOfN,
    addEvaluate,
    addChat,
    addServe,
    addExport,
    addRuns,
    addDashboard,
    addKeys,
    addDoctor,
    addSetupGpu,
    addCompletion,
    addVersion,
  ];
  for (const add of commands) add(program, io);
  for (const command of allCommands(program)) {
    command.copyInheritedSettings(program);
    suggest(command, io, json);
  }
  return program;
}

export function allCommands(program: Command): Command[] {
  return [program, ...program.commands.flatMap(allCommands)];
}

/** After "unknown command", "unknown option" or a value that is no choice: the nearest one, in the words the rest of the library uses. */
function suggest(command: Command, io: CliIo, json: boolean): void {
  const colors = colorsOf(io, io.stderr);
  const near = (name: string, candidates: readonly string[]): string =>
    nearest(name, candidates) === undefined && candidates.length > 12
      ? `See \`npx stateset-agents ${pathOf(command)}--help\`.`
      : didYouMean(name, candidates);
  const hintFor = (message: string): string | undefined => {
    const option = /^unknown option '([^']+)'/.exec(message)?.[1];
    if (option) return near(option.split("=")[0]!, visibleFlags(command));
    const [, value, allowed] = /argument '([^']+)' is invalid\. Allowed choices are (.+)$/.exec(message) ?? [];
    // The message lists them already.
    if (value && allowed) return nearest(value, allowed.split(", ")) && didYouMean(value, allowed.split(", "));
    const named = /^unknown command '([^']+)'/.exec(message)?.[1];
    if (!named) return undefined;
    return near(
      named,
      command.commands.map((sub) => sub.name()),
    );
  };
  command.configureOutput({
    outputError(text, write) {
      const message = text
        .replace(/^error: /, "")
        .trimEnd()
        .replace(/\.$/, "");
      const hint = hintFor(message);
      const said = `${message[0]!.toUpperCase()}${message.slice(1)}.`;
      if (json) {
        const failure = { type: "error", code: "INVALID_OPTION", message: said, ...(hint && { hint }), status: 2 };
        printJson(io, failure satisfies { [K in keyof JsonFailure]?: unknown });
        return;
      }
      write(`${colors.red("✗")} ${said}\n`);
      if (hint) write(`${colors.cyan("→")} ${hint}\n`);
    },
  });
}

function visibleFlags(command: Command): string[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map((option) => option.long ?? option.short ?? option.flags);
}

function pathOf(command: Command): string {
  const names: string[] = [];
  for (let at: Command | null = command; at?.parent; at = at.parent) names.unshift(at.name());
  return names.map((name) => `${name} `).join("");
}

/** Runs one command line and returns its exit status. Never throws and never exits the process. */
export async function runCli(args: readonly string[], io: CliIo = processIo()): Promise<ExitCode> {
  // Read here, since what is wrong may be found before the flags are.
  const end = args.indexOf("--");
  const json = (end < 0 ? args : args.slice(0, end)).includes("--json");
  try {
    await createProgram(io, json).parseAsync([...args], { from: "user" });
    return 0;
  } catch (error) {
    return error instanceof CliExit && error.status === 0 ? 0 : reportFailure(error, io, json);
  }
}
