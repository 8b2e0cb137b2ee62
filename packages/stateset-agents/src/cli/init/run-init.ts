import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import * as prompts from "@clack/prompts";
import { makeFolders, writeFailed } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { findPackageRoot } from "../../package-root.ts";
import { wrap } from "../../telemetry/columns.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, isInteractive, print, printJson } from "../io.ts";
import { packageSource } from "./package-source.ts";
import { projectFiles, type TemplateName, templateHints, templateNames, yamlConfig } from "./templates.ts";

export interface InitFlags {
  template?: TemplateName;
  model?: string;
  path?: string;
  yes?: boolean;
  force?: boolean;
  json?: boolean;
}

interface Answers {
  folder: string;
  template: TemplateName;
  model: string | undefined;
}

/** The `init` command. */
export async function runInit(folder: string | undefined, flags: InitFlags, io: CliIo): Promise<void> {
  const given = folder ?? flags.path;
  if (given !== undefined && /\.ya?ml$/.test(given)) {
    const file = resolve(io.cwd, given);
    writeAll(
      dirname(file),
      { [basename(file)]: yamlConfig({ model: flags.model }, flags.template ?? "support") },
      flags.force === true,
    );
    return report([file], [`npx stateset-agents train --config ${given}`], flags, io);
  }
  const answers = isInteractive(io) && !flags.yes && !flags.json ? await ask(given, flags) : defaults(given, flags);
  const dir = resolve(io.cwd, answers.folder);
  if (existsSync(dir) && readdirSync(dir).some((name) => name !== ".git") && !flags.force) {
    throw new StatesetError("INVALID_OPTION", `${dir} is not empty.`, {
      hint: "Choose another folder, or give --force.",
    });
  }
  const name =
    basename(dir)
      .toLowerCase()
      .replace(/[^a-z0-9-]+/g, "-")
      .replace(/^-+|-+$/g, "") || "agent";
  const source = packageSource(dir, findPackageRoot());
  const files = projectFiles(answers.template, { name, model: answers.model, source });
  writeAll(dir, files, flags.force === true);
  const shown = relative(io.cwd, dir);
  const next = [...(shown === "" ? [] : [`cd ${shown}`]), "npm install", "npm run train"];
  report(
    Object.keys(files).map((path) => join(dir, path)),
    next,
    flags,
    io,
    source.note,
  );
}

function defaults(folder: string | undefined, { template, model }: InitFlags): Answers {
  return { folder: folder ?? "my-agent", template: template ?? "support", model };
}

/** At most three questions; what is on the command line is not asked. */
async function ask(folder: string | undefined, flags: InitFlags): Promise<Answers> {
  const fallback = defaults(folder, flags);
  prompts.intro("A new agent");
  const answer = async <T extends string>(question: Promise<T | symbol>): Promise<T> => {
    const value = await question;
    if (prompts.isCancel(value)) {
      prompts.cancel("Nothing was written.");
      throw new CliExit(130);
    }
    return value as T;
  };
  const template =
    flags.template ??
    (await answer<TemplateName>(
      prompts.select<TemplateName>({
        message: "What should it do?",
        options: templateNames.map((name) => ({ value: name, label: name, hint: templateHints[name] })),
      }),
    ));
  const where =
    folder ??
    (await answer<string>(
      prompts.text({ message: "In which folder?", defaultValue: fallback.folder, placeholder: fallback.folder }),
    ));
  const model =
    flags.model ??
    (await answer<string>(
      prompts.text({
        message: "From which model? (a folder or hub id)",
        defaultValue: "starter",
        placeholder: "starter (bundled, small, trains on this CPU)",
      }),
    ));
  prompts.outro("Writing the project");
  return { folder: where, template, model: model === "starter" ? undefined : model };
}

function writeAll(dir: string, files: Readonly<Record<string, string>>, force: boolean): void {
  for (const [path, content] of Object.entries(files)) {
    const file = join(dir, path);
    if (existsSync(file) && !force) {
      throw new StatesetError("INVALID_OPTION", `${file} is already there.`, {
        hint: "Choose another place, or give --force.",
      });
    }
    try {
      makeFolders(dirname(file));
      writeFileSync(file, content);
    } catch (error) {
      throw writeFailed(file, error);
    }
  }
}

function report(
  files: readonly string[],
  next: readonly string[],
  { json }: InitFlags,
  io: CliIo,
  note?: string,
): void {
  if (json) {
    printJson(io, { files, next, ...(note !== undefined && { note }) });
    return;
  }
  const colors = colorsOf(io);
  for (const file of files) print(io, `${colors.green("+")} ${relative(io.cwd, file)}`);
  if (note !== undefined) print(io, "", ...wrap(note, io.stdout.columns ?? 100));
  print(io, "", colors.dim("Next:"), ...next.map((command) => `  ${command}`));
}
