import { Argument, type Command } from "commander";
import { type CliIo, print } from "../io.ts";

const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

export function addCompletion(program: Command, io: CliIo): void {
  program
    .command("completion")
    .description("Print a completion script for your shell.")
    .addArgument(new Argument("<shell>", "the shell").choices(shells))
    .addHelpText(
      "after",
      `
Examples:
  bash   echo 'eval "$(stateset-agents completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(stateset-agents completion zsh)"' >> ~/.zshrc
  fish   stateset-agents completion fish > ~/.config/fish/completions/stateset-agents.fish`,
    )
    .action((shell: Shell) => print(io, scripts[shell](entriesOf(program)).trimEnd()));
}

interface Entry {
  /** The command as typed after the program's name: "", "train", "runs list". */
  path: string;
  subcommands: { name: string; description: string }[];
  flags: { flag: string; description: string; choices: readonly string[] }[];
  /** What its first argument may be. */
  choices: readonly string[];
}

function entriesOf(program: Command): Entry[] {
  const visit = (command: Command, path: string): Entry[] => [
    {
      path,
      subcommands: command.commands.map((sub) => ({ name: sub.name(), description: sub.description() })),
      flags: command
        .createHelp()
        .visibleOptions(command)
        .map((option) => ({
          flag: option.long ?? option.short ?? "",
          description: option.description,
          choices: option.argChoices ?? [],
        })),
      choices: command.registeredArguments[0]?.argChoices ?? [],
    },
    ...command.commands.flatMap((sub) => visit(sub, path === "" ? sub.name() : `${path} ${sub.name()}`)),
  ];
  return visit(program, "");
}

const wordsOf = (entry: Entry) => [
  ...entry.subcommands.map(({ name }) => name),
  ...entry.choices,
  ...entry.flags.map(({ flag }) => flag),
];

/** bash and zsh (through bashcompinit) share one function: it finds the deepest command typed and offers its words. */
function bash(entries: readonly Entry[]): string {
  const cases = entries.map((entry) => `    "${entry.path}") words="${wordsOf(entry).join(" ")}" ;;`);
  const choices = entries.flatMap((entry) =>
    entry.flags
      .filter((flag) => flag.choices.length > 0)
      .map((flag) => `    "${entry.path}:${flag.flag}") words="${flag.choices.join(" ")}" ;;`),
  );
  const paths = entries.filter((entry) => entry.path !== "").map((entry) => `"${entry.path}"`);
  return `_stateset_agents() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path="" words="" word candidate
  local i known=(${paths.join(" ")})
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    candidate="\${path:+$path }$word"
    for k in "\${known[@]}"; do [[ "$k" == "$candidate" ]] && path="$candidate"; done
  done
  case "$path:$previous" in
${choices.join("\n")}
  esac
  if [[ -z "$words" ]]; then
    case "$path" in
${cases.join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ \${#COMPREPLY[@]} -eq 0 && "$current" != -* ]] && COMPREPLY=($(compgen -f -- "$current"))
}
complete -F _stateset_agents stateset-agents
`;
}

function zsh(entries: readonly Entry[]): string {
  return `autoload -Uz compinit bashcompinit && compinit -i && bashcompinit\n${bash(entries)}`;
}

function fish(entries: readonly Entry[]): string {
  const quote = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines: string[] = [];
  for (const entry of entries) {
    const typed = entry.path.split(" ").filter(Boolean);
    const nested = entry.subcommands.map(({ name }) => name);
    const when =
      typed.length === 0
        ? "__fish_use_subcommand"
        : [
            ...typed.map((word) => `__fish_seen_subcommand_from ${word}`),
            ...(nested.length > 0 ? [`not __fish_seen_subcommand_from ${nested.join(" ")}`] : []),
          ].join("; and ");
    const begin = `complete -c stateset-agents -n ${quote(when)}`;
    for (const { name, description } of entry.subcommands)
      lines.push(`${begin} -f -a ${name} -d ${quote(description)}`);
    for (const choice of entry.choices) lines.push(`${begin} -f -a ${choice}`);
    for (const { flag, description, choices } of entry.flags) {
      const values = choices.length > 0 ? ` -x -a ${quote(choices.join(" "))}` : "";
      if (flag.startsWith("--")) lines.push(`${begin} -l ${flag.slice(2)}${values} -d ${quote(description)}`);
    }
  }
  return lines.join("\n");
}

const scripts: Record<Shell, (entries: readonly Entry[]) => string> = { bash, zsh, fish };
