/** Runs the command line inside the test process: fast, and nothing reaches the real terminal. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { InterruptCode } from "../src/cli/exit-codes.ts";
import type { CliIo } from "../src/cli/io.ts";
import { runCli } from "../src/cli/program.ts";
import { makeTinyModel } from "./tiny-model.ts";

/** Parsed JSON; tests say by their assertions what is in it. */
// biome-ignore lint/suspicious/noExplicitAny: the shape differs from command to command
export type Json = Record<string, any>;

export interface CliResult {
  status: number;
  stdout: string;
  stderr: string;
  /** Standard output as JSON lines. */
  json: Json[];
}

export interface CliSettings {
  cwd: string;
  env?: Record<string, string>;
  input?: string;
  /** Pretend to be a terminal. */
  tty?: boolean;
  /** Ctrl-C, once this is printed. */
  interruptAt?: RegExp;
  /** Called once the command can be stopped; what it resolves to stops it. */
  until?: (stdout: () => string) => Promise<InterruptCode>;
}

export async function cli(
  args: readonly string[],
  { cwd, env = {}, input = "", tty = false, interruptAt, until }: CliSettings,
): Promise<CliResult> {
  const written = { stdout: "", stderr: "" };
  let interrupt: Parameters<CliIo["onInterrupt"]>[0] | undefined;
  const stream = (name: keyof typeof written) => ({
    isTTY: tty,
    columns: 100,
    write(text: string) {
      written[name] += text;
      if (!interrupt || !interruptAt?.test(written.stdout)) return;
      const stop = interrupt;
      // Saying that it stops is printed too.
      interrupt = undefined;
      stop(130);
    },
  });
  const io: CliIo = {
    stdout: stream("stdout"),
    stderr: stream("stderr"),
    stdin: Object.assign(Readable.from([input]), { isTTY: tty }),
    env,
    cwd,
    onInterrupt(stop) {
      interrupt = stop;
      void until?.(() => written.stdout).then(stop);
      return () => {
        interrupt = undefined;
      };
    },
  };
  const status = await runCli(args, io);
  return {
    status,
    ...written,
    get json() {
      return written.stdout
        .split("\n")
        .filter((line) => line.startsWith("{") || line.startsWith("["))
        .map((line) => JSON.parse(line) as Json);
    },
  };
}

const source = (path: string) => fileURLToPath(new URL(`../src/${path}`, import.meta.url));

/** A project whose agent is a small table of numbers: trains in milliseconds. */
export async function tableProject(
  dir: string,
  changes: { training?: object; head?: string; rest?: string } = {},
): Promise<string> {
  const training = {
    steps: 3,
    groupsPerStep: 2,
    groupSize: 4,
    learningRate: 0.1,
    checkpoint: { every: 1 },
    ...changes.training,
  };
  await mkdir(dir, { recursive: true });
  await writeFile(
    join(dir, "stateset.config.ts"),
    `import { defineConfig, MultiTurnAgent, rewardFunction } from "stateset-agents";
import { createTablePolicy } from ${JSON.stringify(source("test-support/table-policy.ts"))};
${changes.head ?? ""}
const reward = rewardFunction({ name: "polite" }, ({ turns }) => {
  const replies = turns.filter((turn) => turn.role === "assistant");
  return replies.filter((turn) => turn.content.includes("please")).length / replies.length;
});
const scenario = (id: string, text: string) => ({ id, userResponses: [text, "ok really"] });
export default defineConfig({
  agent: new MultiTurnAgent({ policy: createTablePolicy(), sampling: { maxTokens: 6 } }),
  environment: { scenarios: [scenario("refund", "refund order"), scenario("card", "card broken"), scenario("late", "order late")], maxTurns: 2 },
  heldOut: [scenario("held-1", "help order"), scenario("held-2", "card late")],
  reward,
  training: ${JSON.stringify(training)},
  ${changes.rest ?? ""}
});
`,
  );
  return dir;
}

const template =
  "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/** A random model of a few kilobytes that can chat (nonsense), for commands that load a checkpoint. */
export async function chatModel(seed = 1, contextLength = 128): Promise<string> {
  const dir = await makeTinyModel("llama", { max_position_embeddings: contextLength }, { seed });
  const path = join(dir, "tokenizer_config.json");
  const config = JSON.parse(await readFile(path, "utf8")) as object;
  await writeFile(path, JSON.stringify({ ...config, chat_template: template }));
  return dir;
}
