import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { flagTests } from "../../../test/flags.ts";
import { spawnCli } from "../../../test/spawn-cli.ts";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { openKeyStore } from "../../server/key/key-store.ts";

const { run, flag, complete } = flagTests("keys");

let cwd: string;
let file: string;
beforeEach(() => {
  cwd = temporaryFolder();
  file = join(cwd, "keys.json");
});
const keys = (args: string) => run(`keys ${args} --file keys.json`, { cwd });
const stored = () => (JSON.parse(readFileSync(file, "utf8")) as { keys: Record<string, unknown>[] }).keys;
const created = async (flags = "") => {
  const { status, stderr } = await keys(`create --name ci ${flags}`.trim());
  expect(status, stderr).toBe(0);
  return stored().at(-1)!;
};

describe("keys create", () => {
  flag("keys create --file", async () => {
    const { stdout } = await keys("create --name ci");
    const [token] = stdout.split("\n");
    expect(openKeyStore(file).find(token!)).toMatchObject({ kind: "ok", caller: { project: "default" } });
    expect(stdout).toContain("This is the only time it is shown");
    expect(readFileSync(file, "utf8")).not.toContain(token!.slice(-43));
    const config = join(cwd, "config");
    await run("keys create --name ci", { cwd, env: { XDG_CONFIG_HOME: config } });
    await run("keys create --name ci", { cwd, env: { HOME: cwd } });
    expect(existsSync(join(config, "stateset-agents/keys.json"))).toBe(true);
    expect(existsSync(join(cwd, ".config/stateset-agents/keys.json"))).toBe(true);
  });
  flag("keys create --name", async () => {
    expect(await created()).toMatchObject({ name: "ci", scopes: ["infer", "read"] });
    expect((await keys("create")).status).toBe(2);
  });
  flag("keys create --project", async () => {
    expect(await created("--project shop")).toMatchObject({ project: "shop" });
    expect((await keys("create --name ci --project ../x")).status).toBe(2);
  });
  flag("keys create --scope", async () => {
    expect(await created("--scope read metrics read")).toMatchObject({ scopes: ["read", "metrics"] });
    expect((await keys("create --name ci --scope amin")).stderr).toContain('Did you mean "admin"?');
  });
  flag("keys create --model", async () => {
    expect(await created("--model small large")).toMatchObject({ models: ["small", "large"] });
  });
  flag("keys create --requests-per-minute", async () => {
    expect(await created("--requests-per-minute 60")).toMatchObject({ requestsPerMinute: 60 });
  });
  flag("keys create --tokens-per-minute", async () => {
    expect(await created("--tokens-per-minute 9000")).toMatchObject({ tokensPerMinute: 9000 });
  });
  flag("keys create --concurrency", async () => {
    expect(await created("--concurrency 4")).toMatchObject({ concurrency: 4 });
    expect((await keys("create --name ci --concurrency 0")).status).toBe(2);
  });
  flag("keys create --expires", async () => {
    const { createdAt, expiresAt } = (await created("--expires 30d")) as Record<string, string>;
    const days = (Date.parse(expiresAt!) - Date.parse(createdAt!)) / 86_400_000;
    expect(Math.round(days)).toBe(30);
    expect(await created("--expires 2999-01-31")).toMatchObject({ expiresAt: "2999-01-31T00:00:00.000Z" });
    for (const wrong of ["soon", "30", "999999999999d", "2020-01-01", "2027-13-01", "2999-02-30"])
      expect((await keys(`create --name ci --expires ${wrong}`)).status, wrong).toBe(2);
  });
  flag("keys create --json", async () => {
    const { json } = await keys("create --name ci --json");
    expect(json[0]).toMatchObject({ name: "ci", file, state: "good" });
    expect(openKeyStore(file).find(json[0]!.key as string).kind).toBe("ok");
    expect(json[0]).not.toHaveProperty("hash");
  });

  it("loses none of the keys that several processes make at once, nor to a lock that a killed one left", async () => {
    writeFileSync(`${file}.lock`, JSON.stringify({ pid: 2 ** 30, host: hostname() }));
    const names = ["a", "b"];
    const processes = names.map((name) => spawnCli(["keys", "create", "--name", name, "--file", file], cwd));
    for (const one of processes) expect(await one.exit, one.output()).toBe(0);
    expect(
      stored()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(names);
  }, 60_000);
});

describe("keys list", () => {
  flag("keys list --file", async () => {
    expect((await keys("list")).stdout).toContain("No keys in");
    const [token] = (await keys("create --name ci --concurrency 2")).stdout.split("\n");
    const { stdout } = await keys("list");
    expect(stdout).toMatch(/[0-9a-f]{16} +ci +good +default +infer read +all +2 at a time/);
    expect(stdout).not.toContain(token!.slice(-43));
    writeFileSync(file, "{");
    expect((await keys("list")).status).toBe(3);
  });
  flag("keys list --json", async () => {
    const key = await created();
    const { json } = await keys("list --json");
    expect(json[0]).toMatchObject([{ id: key.id, state: "good" }]);
    expect(JSON.stringify(json)).not.toContain(key.hash);
  });
});

describe("keys revoke", () => {
  flag("keys revoke --file", async () => {
    const [token] = (await keys("create --name ci")).stdout.split("\n");
    let elapsed = 0;
    const store = openKeyStore(file, { now: Date.now, elapsed: () => (elapsed += 500) });
    const { status, stdout } = await keys(`revoke ${stored()[0]!.id}`);
    expect([status, stdout]).toEqual([0, expect.stringContaining("Revoked ci")]);
    expect(store.find(token!).kind).toBe("revoked");
  });
  flag("keys revoke --json", async () => {
    const { id } = await created();
    expect((await keys(`revoke ${id} --json`)).json[0]).toMatchObject({ id, state: "revoked" });
  });

  it("takes the whole key of whoever has only that, and never repeats what it was given", async () => {
    const [token] = (await keys("create --name ci")).stdout.split("\n");
    const pasted = await keys(`revoke ${token}`);
    expect(pasted.stdout).toContain("Revoked ci");
    const other = await keys("revoke sk-another-secret");
    expect(other.status).toBe(2);
    expect(`${pasted.stdout}${other.stderr}`).not.toMatch(new RegExp(`another-secret|${token!.slice(-43)}`));
    expect((await keys("revoke 0123456789abcdef")).stderr).toContain("There is no key 0123456789abcdef");
  });
});

complete();
