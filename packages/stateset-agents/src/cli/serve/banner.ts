import type { AgentServer } from "../../server/create-server.ts";
import { quantity } from "../../telemetry/format.ts";
import { type CliIo, colorsOf } from "../io.ts";

/** Where it listens, what it serves, who may call, and a first call to try. */
export function banner(
  url: string,
  models: ReturnType<AgentServer["models"]>,
  { keys, key, ui }: { keys: boolean; key: boolean; ui: boolean },
  io: CliIo,
): string[] {
  const { bold, dim } = colorsOf(io);
  const rows = models.map(({ name, version, stub, parameters, contextLength }) => {
    const size = stub ? "a stub: scripted replies" : `${quantity(parameters)} parameters, ${contextLength} tokens`;
    return `  ${bold(name)}  ${dim(`${size}, version ${version}`)}`;
  });
  const memory = `${Math.round(process.memoryUsage.rss() / 2 ** 20)} MiB of memory`;
  const who = keys
    ? "Whoever has one of its keys may call."
    : key
      ? "Whoever has the key may call."
      : "No key is set, so it listens on this machine alone, to whoever is on it. Others may come in with --keys or --api-key.";
  return [
    `${bold(url)}/v1  ${dim(memory)}`,
    ...rows,
    who,
    ...(ui ? [`${bold(`${url}/ui/`)}  ${dim(key ? "the runs, for keys of scope read" : "the runs")}`] : []),
    "",
    dim("Try it:"),
    `  curl ${url}/v1/chat/completions -H 'content-type: application/json'${key ? ' -H "authorization: Bearer $KEY"' : ""} \\`,
    `    -d '{"model": "${models[0]!.name}", "messages": [{"role": "user", "content": "Hello"}]}'`,
    "",
  ];
}
