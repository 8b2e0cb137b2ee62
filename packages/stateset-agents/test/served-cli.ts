/** The `serve` command, asked over HTTP. */
import type { InterruptCode } from "../src/cli/exit-codes.ts";
import type { CliResult, CliSettings } from "./cli.ts";
import type { Answered } from "./serve.ts";

export type Ask = (path: string, body?: object, headers?: Record<string, string>) => Promise<Answered>;

/** Serves while `during` asks, then is told to end. */
export async function served(
  run: (args: string, settings?: Partial<CliSettings>) => Promise<CliResult>,
  args: string,
  during: (ask: Ask, url: string) => Promise<void>,
  options: Partial<CliSettings> & { how?: InterruptCode } = {},
): Promise<CliResult> {
  const { how = 143, ...settings } = options;
  let failure: unknown;
  const until = async (stdout: () => string) => {
    // A server that cannot listen never prints it.
    while (!/http:/.test(stdout())) await new Promise((settle) => setTimeout(settle, 5));
    const url = /http:\/\/[^/\s"]+/.exec(stdout())![0];
    const ask: Ask = async (path, body, headers = {}) => {
      const posted = body && { method: "POST", body: JSON.stringify(body) };
      const response = await fetch(url + path, {
        headers: { "content-type": "application/json", ...headers },
        ...posted,
      });
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        json: text.startsWith("{") ? JSON.parse(text) : { text },
      };
    };
    await during(ask, url).catch((error: unknown) => {
      failure = error;
    });
    return how;
  };
  const log = args.includes("--log") ? "" : " --log none";
  const result = await run(`serve ${args} --port 0${log}`.replace(/ +/g, " "), { ...settings, until });
  if (failure) throw failure;
  return result;
}
