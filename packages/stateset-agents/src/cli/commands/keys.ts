import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { StatesetError } from "../../error.ts";
import { type Scope, scopes } from "../../server/key/caller.ts";
import { createKey, readKeyFile, revokeKey, type StoredKey } from "../../server/key/key-file.ts";
import { idIn, idPattern } from "../../server/key/token.ts";
import { table } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { countingNumber } from "../values.ts";

interface Common {
  file?: string;
  json?: boolean;
}

interface CreateOptions extends Common {
  name?: string;
  project?: string;
  scope?: Scope[];
  model?: string[];
  requestsPerMinute?: number;
  tokensPerMinute?: number;
  concurrency?: number;
  expires?: string;
}

export function addKeys(program: Command, io: CliIo): void {
  const keys = program.command("keys").description("Make, list and revoke the keys that a server lets in.");
  const add = (name: string, description: string) =>
    keys
      .command(name)
      .description(description)
      .option("--file <path>", "the key file (default: stateset-agents/keys.json in $XDG_CONFIG_HOME or ~/.config)")
      .option("--json", "print JSON");

  add("create", "Make a key and print it: the only time that it can be seen.")
    .option("--name <text>", "whose it is; needed")
    .option("--project <name>", "what the caller makes and sees belongs to it (default: default)")
    .addOption(new Option("--scope <scope...>", "what it may do (default: infer and read)").choices(scopes))
    .option("--model <name...>", "the models it may name (default: all)")
    .option("--requests-per-minute <n>", "requests in any 60 seconds", countingNumber)
    .option("--tokens-per-minute <n>", "tokens in any 60 seconds, of prompts and replies", countingNumber)
    .option("--concurrency <n>", "requests at a time", countingNumber)
    .option("--expires <when>", "a time such as 12h or 30d, or a date such as 2027-01-31", expiry)
    .action((options: CreateOptions) => create(io, options));
  add("list", "List the keys; none is shown whole, since none is kept.").action((options: Common) => list(io, options));
  add("revoke", "Revoke a key. A server that runs sees it within a second.")
    .argument("<id>", "the key's id")
    .action((id: string, options: Common) => revoke(io, id, options));
}

/** Where keys are kept unless --file says otherwise. */
export function defaultKeyFile(env: CliIo["env"]): string {
  const folder = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config");
  return join(folder, "stateset-agents", "keys.json");
}

function fileOf(io: CliIo, { file }: Common): string {
  return resolve(io.cwd, file ?? defaultKeyFile(io.env));
}

const unitMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** "30d", or a date; as a time. */
function expiry(text: string): string {
  const [, count, unit] = /^(\d+)([mhd])$/.exec(text) ?? [];
  const at = unit ? Date.now() + Number(count) * unitMs[unit as keyof typeof unitMs] : isoTime(text);
  // The last day that a Date can hold.
  if (!(at <= 8.64e15)) throw new InvalidArgumentError("Write it as 90m, 12h or 30d, or as a date such as 2027-01-31.");
  return new Date(at).toISOString();
}

function isoTime(text: string): number {
  const [day] = /^\d{4}-\d\d-\d\d(?=T|$)/.exec(text) ?? [];
  // A day that its month does not have would be read as one of the next.
  if (day === undefined || new Date(day).getUTCDate() !== Number(day.slice(8))) return Number.NaN;
  return Date.parse(text);
}

async function create(io: CliIo, options: CreateOptions): Promise<void> {
  const file = fileOf(io, options);
  const { name, project, scope, model, requestsPerMinute, tokensPerMinute, concurrency, expires } = options;
  if (name === undefined) {
    throw new StatesetError("INVALID_OPTION", "A key needs a name, so that it can be told from others.", {
      hint: "Say whose it is: --name ci.",
    });
  }
  const { token, key } = await createKey(file, {
    name,
    project,
    scopes: scope && [...new Set(scope)],
    models: model,
    requestsPerMinute,
    tokensPerMinute,
    concurrency,
    expiresAt: expires,
  });
  if (options.json) return printJson(io, { ...shownOf(key), key: token, file });
  const colors = colorsOf(io);
  print(
    io,
    token,
    "",
    `This is the only time it is shown: ${file} holds its hash alone.`,
    colors.dim(
      `${key.name}, project ${key.project}, may ${key.scopes.join(", ")}${key.expiresAt ? `, until ${key.expiresAt}` : ""}`,
    ),
    colors.dim(`revoke it with: npx stateset-agents keys revoke ${key.id}`),
  );
}

/** A key without its hash, as --json prints it. */
function shownOf({ hash: _, ...key }: StoredKey) {
  return { ...key, state: stateOf(key) };
}

function stateOf({ revokedAt, expiresAt }: Pick<StoredKey, "revokedAt" | "expiresAt">): "good" | "revoked" | "expired" {
  if (revokedAt !== undefined) return "revoked";
  return expiresAt !== undefined && Date.parse(expiresAt) <= Date.now() ? "expired" : "good";
}

function list(io: CliIo, options: Common): void {
  const file = fileOf(io, options);
  const keys = readKeyFile(file) ?? [];
  if (options.json) {
    printJson(io, keys.map(shownOf));
    return;
  }
  if (keys.length === 0) {
    print(io, `No keys in ${file}. Make one with \`npx stateset-agents keys create --name NAME\`.`);
    return;
  }
  const rows = keys.map((key) => [
    key.id,
    key.name,
    stateOf(key),
    key.project,
    key.scopes.join(" "),
    key.models?.join(" ") ?? "all",
    limitsOf(key),
    key.expiresAt ?? "–",
  ]);
  print(io, ...table(["id", "name", "state", "project", "may", "models", "limits", "until"], rows, colorsOf(io).dim));
}

function limitsOf({ requestsPerMinute, tokensPerMinute, concurrency }: StoredKey): string {
  const limits = [
    requestsPerMinute && `${requestsPerMinute} requests/min`,
    tokensPerMinute && `${tokensPerMinute} tokens/min`,
    concurrency && `${concurrency} at a time`,
  ].filter(Boolean);
  return limits.join(", ") || "–";
}

async function revoke(io: CliIo, given: string, options: Common): Promise<void> {
  // Whoever has only the key at hand, because it leaked, may paste it whole; it is not repeated.
  const id = idIn(given) ?? given.replace(/^sk-ss-/, "");
  if (!idPattern.test(id)) {
    throw new StatesetError("INVALID_OPTION", "That is no id of a key: an id has 16 letters and digits.", {
      hint: "`npx stateset-agents keys list` shows the ids.",
    });
  }
  const key = await revokeKey(fileOf(io, options), id);
  if (options.json) return printJson(io, shownOf(key));
  print(io, `Revoked ${key.name} (${id}). A server that runs sees it within a second.`);
}
