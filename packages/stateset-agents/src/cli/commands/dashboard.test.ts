import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { CliResult, CliSettings, Json } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { spawnCli } from "../../../test/spawn-cli.ts";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import type { InterruptCode } from "../exit-codes.ts";

const { place, run, flag, complete } = flagTests("dashboard");

let home: string;
beforeAll(async () => {
  home = temporaryFolder();
  expect((await run("train --steps 2 --name first")).status).toBe(0);
}, 60_000);

interface Open {
  url: string;
  link: string;
  /** With the cookie that the link gives. */
  ask(path: string, body?: object, headers?: Record<string, string>): Promise<{ status: number; json: Json }>;
}

type Settings = Partial<CliSettings> & { how?: InterruptCode };

/** The dashboard while `during` looks at it, then told to end. */
async function shown(
  args: string,
  during: (open: Open) => Promise<void>,
  { how = 143, ...settings }: Settings = {},
): Promise<CliResult> {
  let failure: unknown;
  const until = async (stdout: () => string) => {
    while (!/\/ui\/open\?link=[\w-]{43}/.test(stdout())) await new Promise((settle) => setTimeout(settle, 5));
    await look(stdout()).catch((error: unknown) => {
      failure = error;
    });
    return how;
  };
  const look = async (text: string) => {
    const [link, url] = /(http:\/\/[^/\s"]+)\/ui\/open\?link=[\w-]{43}/.exec(text)! as unknown as [string, string];
    let cookie: string | undefined;
    const ask: Open["ask"] = async (path, body, headers = {}) => {
      cookie ??= (await fetch(link, { redirect: "manual" })).headers.get("set-cookie")!.split(";")[0]!;
      const response = await fetch(`${url}/ui/api/${path}`, {
        headers: { cookie, ...(body && { "content-type": "application/json" }), ...headers },
        ...(body && { method: "POST", body: JSON.stringify(body) }),
      });
      const said = await response.text();
      return { status: response.status, json: said.startsWith("{") ? (JSON.parse(said) as Json) : { text: said } };
    };
    await during({ url, link, ask });
  };
  const port = args.includes("--port") ? "" : " --port 0";
  const result = await run(`dashboard${args && ` ${args}`}${port}`, { env: { HOME: home }, ...settings, until });
  if (failure) throw failure;
  return result;
}

const writes = (url: string) => ({ "x-stateset-ui": "1", origin: url });

describe("dashboard", () => {
  it("shows the runs of a folder to who comes by its link, until it is told to end", async () => {
    const { status, stdout } = await shown("", async ({ ask, url, link }) => {
      expect((await fetch(`${url}/ui/api/runs`)).status).toBe(401);
      const { json } = await ask("runs");
      expect(json).toMatchObject({ rows: [{ key: "first", state: "finished" }], readOnly: false });
      expect((await ask("runs/first")).json).toMatchObject({
        ...{ id: "first", stop: { possible: false } },
        resume: { possible: false, why: "It is finished." },
      });
      const used = await fetch(link);
      expect([used.status, await used.text()]).toEqual([403, expect.stringContaining("used already")]);
      expect((await fetch(url, { redirect: "manual" })).headers.get("location")).toBe("ui/");
    });
    expect([status, stdout]).toEqual([0, expect.stringContaining("Dashboard of runs")]);
    expect((await shown("", async () => {}, { how: 130 })).status).toBe(130);
    expect(existsSync(join(home, ".cache", "stateset-agents", "dashboard", "session-secret"))).toBe(true);
  });

  it("takes several folders, and single runs", async () => {
    const other = temporaryFolder();
    await shown(`runs runs/first ${other} ./runs`, async ({ ask }) => {
      const { json } = await ask("runs");
      // The one that is named twice counts once.
      expect(json.folders).toHaveLength(3);
    });
  });

  it("names the nearest folder where there is none", async () => {
    const missing = await run("dashboard rnus", { env: { HOME: home } });
    expect([missing.status, missing.stderr]).toEqual([2, expect.stringContaining('Did you mean "runs"?')]);
    const deep = await run("dashboard runs/frist", { env: { HOME: home } });
    expect(deep.stderr).toContain('Did you mean "runs/first"?');
    const beyond = await run("dashboard runs/nowhere/at/all", { env: { HOME: home } });
    expect([beyond.status, beyond.stderr]).toEqual([2, expect.stringContaining('Did you mean "runs"?')]);
    writeFileSync(join(place.dir, "plain"), "");
    expect((await run("dashboard plain", { env: { HOME: home } })).stderr).toContain("plain is no folder");
  });

  it("waits for runs where there are none yet", async () => {
    const cwd = temporaryFolder();
    const { stdout } = await shown("", async ({ ask }) => expect((await ask("runs")).json.total).toBe(0), { cwd });
    expect(stdout).toContain("runs is not there yet");
  });

  it("lets a page go on by itself when it is started again", async () => {
    let cookie = "";
    let port = "";
    await shown("", async ({ url, link }) => {
      port = new URL(url).port;
      cookie = (await fetch(link, { redirect: "manual" })).headers.get("set-cookie")!.split(";")[0]!;
    });
    await shown(`--port ${port}`, async ({ url }) => {
      expect((await fetch(`${url}/ui/api/runs`, { headers: { cookie } })).status).toBe(200);
    });
  });

  flag("dashboard --port", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((settle) => taken.once("listening", settle));
    const { port } = taken.address() as AddressInfo;
    const { stdout } = await shown(`--port ${port}`, async ({ url }) => {
      expect(Number(new URL(url).port)).toBeGreaterThan(port);
    });
    expect(stdout).toMatch(new RegExp(`Port ${port} is taken; this is \\d+\\.`));
    taken.close();
    expect((await run("dashboard --port nine")).status).toBe(2);
    expect((await run("dashboard --port 65536", { env: { HOME: home } })).stderr).toContain("no port 65536");
  });
  flag("dashboard --host", async () => {
    await shown("--host localhost", async ({ url }) => expect(url).toContain("//localhost:"));
    for (const host of ["0.0.0.0", "192.168.1.5", "example.com"]) {
      const { status, stderr } = await run(`dashboard --host ${host}`, { env: { HOME: home } });
      expect([status, stderr]).toEqual([2, expect.stringContaining(`on this machine alone, not on ${host}`)]);
      expect(stderr).toContain("ssh -L 6006:127.0.0.1:6006");
    }
  });
  flag("dashboard --no-open", async () => {
    // A browser of our own, which writes down what it is to show.
    const bin = temporaryFolder();
    const seen = join(bin, "seen");
    for (const name of ["xdg-open", "open"]) {
      writeFileSync(join(bin, name), `#!/bin/sh\necho "$1" > ${seen}\n`);
      chmodSync(join(bin, name), 0o755);
    }
    const before = process.env.PATH;
    process.env.PATH = `${bin}${delimiter}${before}`;
    try {
      const env = { HOME: home, DISPLAY: ":0" };
      await shown("--no-open", async () => {}, { tty: true, env });
      // Without a screen the link is not shown to who lists processes.
      if (process.platform === "linux") await shown("", async () => {}, { tty: true });
      expect(existsSync(seen)).toBe(false);
      await shown(
        "",
        async ({ link }) => {
          await expect.poll(() => existsSync(seen) && readFileSync(seen, "utf8")).toBe(`${link}\n`);
        },
        { tty: true, env },
      );
    } finally {
      process.env.PATH = before;
    }
  });
  flag("dashboard --read-only", async () => {
    const { stdout } = await shown("--read-only", async ({ ask, url }) => {
      expect((await ask("runs")).json.readOnly).toBe(true);
      const { status, json } = await ask("notes", { run: "first", note: "a" }, writes(url));
      expect([status, json.error.code]).toEqual([403, "read_only"]);
    });
    expect(stdout).toContain("read only");
    await shown("", async ({ ask, url }) => {
      expect((await ask("notes", { run: "first", note: "a" }, writes(url))).json).toMatchObject({ note: "a" });
      expect((await ask("runs")).json.rows[0].note).toBe("a");
    });
  });
  flag("dashboard --json", async () => {
    const { json } = await shown("--json", async () => {});
    expect(json).toEqual([
      {
        type: "dashboard",
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
        link: expect.stringContaining("/ui/open?link="),
        folders: [join(place.dir, "runs")],
      },
    ]);
    const { json: failed } = await run("dashboard none --json", { env: { HOME: home } });
    expect(failed).toMatchObject([{ type: "error", code: "INVALID_OPTION", status: 2 }]);
  });
  complete();
});

it("stops a run that runs, and goes on with it", { timeout: 120_000 }, async () => {
  const dir = join(temporaryFolder(), "project");
  mkdirSync(dir);
  const { tableProject } = await import("../../../test/cli.ts");
  await tableProject(dir, { training: { steps: 100_000 } });
  const trained = spawnCli(["train", "--name", "long"], dir);
  await trained.saw(/step|\d/);
  const dashboard = spawnCli(["dashboard", "--json", "--port", "0"], dir, "main", { HOME: home });
  await dashboard.saw(/"link":"[^"]+"/);
  const { url, link } = JSON.parse(
    dashboard
      .output()
      .split("\n")
      .find((line) => line.includes('"link"'))!,
  ) as Json;
  const cookie = (await fetch(link as string, { redirect: "manual" })).headers.get("set-cookie")!.split(";")[0]!;
  const ask = async (path: string, method = "GET"): Promise<Json> => {
    const posted = method === "POST" && { method, body: "{}" };
    const headers = { cookie, "content-type": "application/json", ...writes(url as string) };
    return (await fetch(`${url}/ui/api/runs/long${path}`, { headers, ...posted })).json() as Promise<Json>;
  };
  await expect.poll(async () => (await ask("")).stop?.possible, { timeout: 60_000 }).toBe(true);
  expect((await ask("")).resume).toMatchObject({ possible: false, why: "It is running." });
  expect(await ask("/stop", "POST")).toEqual({ pid: trained.child.pid });
  expect(await trained.exit).toBe(143);
  const { resume, state } = await ask("");
  expect([state, resume]).toMatchObject([
    "interrupted",
    { possible: true, command: expect.stringContaining("--resume") },
  ]);
  const { pid, log } = await ask("/resume", "POST");
  expect([pid, log]).toEqual([expect.any(Number), "resumed.log"]);
  await expect.poll(async () => (await ask("")).state, { timeout: 30_000 }).toBe("running");
  dashboard.child.kill("SIGINT");
  expect(await dashboard.exit).toBe(130);
  // It goes on without who started it.
  process.kill(pid as number, 0);
  process.kill(pid as number, "SIGTERM");
  const status = join(dir, "runs", "long", "status.json");
  await expect
    .poll(() => (JSON.parse(readFileSync(status, "utf8")) as Json).state, { timeout: 30_000 })
    .toBe("interrupted");
});
