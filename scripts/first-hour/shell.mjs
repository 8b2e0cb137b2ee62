/** A user's terminal, for scripts: says what it types, shows what came, and stops at the first thing that is not as it should be. */
import { spawn } from "node:child_process";
import { constants } from "node:os";

const env = { ...process.env, NO_COLOR: "1", npm_config_fund: "false", npm_config_audit: "false" };

export function title(text) {
  console.log(`\n## ${text}\n`);
}

/**
 * Types a command into a folder. `input` is typed into it; `interruptAt` presses Ctrl-C once its output matches; `status` is how it must
 * end; `expect` are patterns its output must hold. Resolves to the output.
 */
export async function type(command, { cwd, input, interruptAt, status = 0, expect = [] }) {
  console.log(`$ ${command}${interruptAt ? "    (Ctrl-C on the way)" : ""}`);
  const child = spawn(command, { cwd, env, shell: true, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  let pressed = false;
  const take = (text) => {
    output += text;
    process.stdout.write(text);
    if (!interruptAt || pressed || !interruptAt.test(output)) return;
    pressed = true;
    // As a terminal does: to everything in the foreground, npx included.
    process.kill(-child.pid, "SIGINT");
  };
  child.stdout.setEncoding("utf8").on("data", take);
  child.stderr.setEncoding("utf8").on("data", take);
  child.stdin.end(input ?? "");
  const ended = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
  });
  if (interruptAt && !pressed) throw new Error(`It ended before ${interruptAt} was seen: ${command}`);
  if (ended !== status) throw new Error(`It ended with ${ended} instead of ${status}: ${command}`);
  for (const pattern of expect) {
    if (!pattern.test(output)) throw new Error(`Its output does not hold ${pattern}: ${command}`);
  }
  console.log("");
  return output;
}
