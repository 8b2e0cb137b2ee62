import { Command } from "commander";
import { didYouMean, nearest } from "../suggest.ts";
import { addChat } from "./commands/chat.ts";
import { addCompletion } from "./commands/completion.ts";
import { addDemo } from "./commands/demo.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addEvaluate } from "./commands/evaluate.ts";
import { addExport } from "./commands/export.ts";
import { addInit } from "./commands/init.ts";
import { addRuns } from "./commands/runs.ts";
import { addTrain } from "./commands/train.ts";
import { addVersion } from "./commands/version.ts";
import type { ExitCode } from "./exit-codes.ts";
import { CliExit, reportFailure } from "./failure.ts";
import { type CliIo, colorsOf, processIo } from "./io.ts";
import { packageVersion } from "./version.ts";

/** The whole command line, as data: parsing, help, completion and docs/reference/cli.md all come from it. */
export function createProgram(io: CliIo): Command {
  const colors = colorsOf(io, io.stderr);
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
      outputError: (text, write) => write(`${colors.red("✗")} ${text.replace(/^error: /, "").trimEnd()}\n`),
      getOutHelpWidth: () => io.stdout.columns ?? 100,
      getErrHelpWidth: () => io.stderr.columns ?? 100,
    });
  const commands = [
    addDemo,
    addInit,
    addTrain,
    addEvaluate,
    addChat,
    addExport,
    addRuns,
    addDoctor,
    addCompletion,
    addVersion,
  ];
  for (const add of commands) add(program, io);
  for (const command of allCommands(program)) {
    command.copyInheritedSettings(program);
    suggest(command, io);
  }
  return program;
}

export function allCommands(program: Command): Command[] {
  return [program, ...program.commands.flatMap(allCommands)];
}

/** After "unknown command" or "unknown option": the nearest one, in the words the rest of the library uses. */
function suggest(command: Command, io: CliIo): void {
  const colors = colorsOf(io, io.stderr);
  const hint = (name: string, candidates: readonly string[]) => {
    const near = nearest(name, candidates);
    const text =
      near === undefined && candidates.length > 12
        ? `See \`npx stateset-agents ${pathOf(command)}--help\`.`
        : didYouMean(name, candidates);
    io.stderr.write(`${colors.cyan("→")} ${text}\n`);
  };
  command.configureOutput({
    outputError(text, write) {
      const message = text
        .replace(/^error: /, "")
        .trimEnd()
        .replace(/\.$/, "");
      write(`${colors.red("✗")} ${message[0]!.toUpperCase()}${message.slice(1)}.\n`);
      const unknownOption = /^unknown option '([^']+)'/.exec(message)?.[1];
      if (unknownOption) hint(unknownOption.split("=")[0]!, visibleFlags(command));
      const unknownCommand = /^unknown command '([^']+)'/.exec(message)?.[1];
      if (unknownCommand)
        hint(
          unknownCommand,
          command.commands.map((sub) => sub.name()),
        );
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
  try {
    await createProgram(io).parseAsync([...args], { from: "user" });
    return 0;
  } catch (error) {
    return error instanceof CliExit && error.status === 0 ? 0 : reportFailure(error, io);
  }
}
