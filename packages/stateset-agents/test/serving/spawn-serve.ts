/** `serve` as a process of its own, on a free port. */
import { readFileSync } from "node:fs";
import { type SpawnedCli, spawnCli } from "../spawn-cli.ts";

export interface SpawnedServe extends SpawnedCli {
  url: string;
  /** A number of /metrics; all of its series added up. */
  metric(name: string, token: string): Promise<number>;
  /** Resident memory in MiB; undefined where the system does not say. */
  memory(): number | undefined;
}

export async function spawnServe(
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<SpawnedServe> {
  const spawned = spawnCli(["serve", ...args, "--port", "0", "--json"], cwd, "main", env);
  await spawned.saw(/"serving".*\n/);
  const line = spawned.output().match(/^\{"type":"serving".*$/m)![0];
  const { url } = JSON.parse(line) as { url: string };
  return {
    ...spawned,
    url,
    async metric(name, token) {
      const response = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
      if (!response.ok) throw new Error(`/metrics answers ${response.status}: ${await response.text()}`);
      const series = (await response.text()).matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, "gm"));
      return [...series].reduce((sum, [, value]) => sum + Number(value), 0);
    },
    memory() {
      if (process.platform !== "linux") return undefined;
      const status = readFileSync(`/proc/${spawned.child.pid}/status`, "utf8");
      return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) / 1024;
    },
  };
}
