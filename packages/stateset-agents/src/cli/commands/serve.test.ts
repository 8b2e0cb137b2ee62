import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { chatModel, type Json } from "../../../test/cli.ts";
import { hubOf } from "../../../test/fake-hub.ts";
import { flagTests } from "../../../test/flags.ts";
import { served as servedBy } from "../../../test/served-cli.ts";
import { spawnCli } from "../../../test/spawn-cli.ts";
import { temporaryFolder } from "../../../test/temporary-folder.ts";

const { place, run, flag, engineFlags, complete } = flagTests("serve");
const served = (args: string, during: Parameters<typeof servedBy>[2], options?: Parameters<typeof servedBy>[3]) =>
  servedBy(run, args, during, options);

/** With a context in which no test sees the end of a reply. */
let patient: string;
beforeAll(async () => {
  patient = await chatModel(1, 100_000);
});

const chat = "/v1/chat/completions";
const messages = [{ role: "user", content: "hello" }];
const brief = (model: string) => ({ model, messages, max_tokens: 2, seed: 1 });
const endless = () => ({ model: basename(patient), messages, max_tokens: 90_000, min_tokens: 90_000 });
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe("serve", () => {
  it("serves agents by name until it is told to end, and says where, what and to whom", async () => {
    const { status, stdout } = await served(`${place.model} --model other=${place.other}`, async (ask) => {
      const { json } = await ask("/v1/models");
      expect(json.data.map(({ id }: Json) => id as string)).toEqual([basename(place.model), "other"]);
      for (const { id } of json.data as Json[]) expect((await ask(chat, brief(id as string))).status).toBe(200);
    });
    expect(status).toBe(0);
    expect(stdout).toMatch(/http:\/\/127\.0\.0\.1:\d+\/v1 {2}\d+ MiB of memory/);
    expect(stdout).toContain("No key is set, so it listens on this machine alone");
    expect(stdout).toContain("curl http://127.0.0.1");
    expect(stdout).toMatch(/other {2}[\d.]+k parameters, 128 tokens, version \w+/);
    expect((await served("--stub", async () => {}, { how: 130 })).status).toBe(130);
  });

  it("serves a model of the hub under its id, and takes no run that is misspelt for one", async () => {
    const hub = await hubOf(place.model);
    const cwd = temporaryFolder();
    const { status } = await served(
      "shop/agent --model small=shop/agent",
      async (ask) => {
        const { json } = await ask("/v1/models");
        expect(json.data.map(({ id }: Json) => id as string)).toEqual(["shop/agent", "small"]);
        for (const { id } of json.data as Json[]) expect((await ask(chat, brief(id as string))).status).toBe(200);
        expect((await ask("/v1/models/shop/agent")).json.id).toBe("shop/agent");
        // There are no newer weights of what was not trained here.
        const { status, json: refused } = await ask("/admin/models/shop/agent/reload", {});
        expect([status, refused.error.code]).toEqual([409, "checkpoint_not_found"]);
      },
      { cwd },
    );
    expect(status).toBe(0);
    const asked = hub.requests.length;
    expect((await run("serve runs/agent", { cwd })).status).toBe(5);
    mkdirSync(join(cwd, "shop"));
    expect((await run("serve shop/agent", { cwd })).status).toBe(5);
    expect(hub.requests).toHaveLength(asked);
    expect((await run("serve shop/other", { cwd: temporaryFolder() })).status).not.toBe(0);
    expect(hub.requests.length).toBeGreaterThan(asked);
  });

  flag("serve --model", async () => {
    await served(`--model support=${place.model}`, async (ask) => {
      expect((await ask(chat, brief("support"))).status).toBe(200);
    });
    expect(await run("serve --model support")).toMatchObject({ status: 2, stderr: expect.stringContaining("--model") });
    expect((await run(`serve --model a=${place.model} --model a=${place.other}`)).stderr).toContain('called "a"');
    expect((await run("serve ./nowhere")).status).toBe(5);
    expect((await run("serve runs/nowhere")).status).toBe(5);
  });
  flag("serve --config", async () => {
    const config = join(place.dir, "stateset.config.ts");
    await served(
      `--config ${config}`,
      async (ask) => expect((await ask(chat, brief("default"))).json.model).toBe("default"),
      { cwd: temporaryFolder() },
    );
    expect((await run("serve --config none.yaml")).status).toBe(3);
  });
  flag("serve --host", async () => {
    const { stdout } = await served("--stub --host localhost", async (_, url) => expect(url).toContain("//localhost:"));
    expect(stdout).toContain("http://localhost:");
    const open = await run("serve --stub --host 0.0.0.0 --port 0 --log none");
    expect(open).toMatchObject({ status: 2, stderr: expect.stringContaining("not on 0.0.0.0") });
    // Before anything is loaded: there is nothing here that could be.
    const early = await run("serve ./nowhere --host 0.0.0.0 --port 0 --log none");
    expect(early).toMatchObject({ status: 2, stderr: expect.stringContaining("not on 0.0.0.0") });
    const empty = await run("serve --stub --host  --api-key sk-a-b-c-d-e --port 0 --log none");
    expect(empty).toMatchObject({ status: 2, stderr: expect.stringContaining("is empty") });
    await served("--stub --host 0.0.0.0 --api-key sk-a-b-c-d-e", async (_, url) => {
      const own = url.replace("0.0.0.0", "127.0.0.1");
      expect((await fetch(`${own}/v1/models`)).status).toBe(401);
      expect((await fetch(`${own}/v1/models`, { headers: bearer("sk-a-b-c-d-e") })).status).toBe(200);
    });
  });
  flag("serve --port", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((settle) => taken.once("listening", settle));
    const { port } = taken.address() as AddressInfo;
    const { status, stderr } = await run(`serve --stub --port ${port} --log none`);
    expect([status, stderr]).toEqual([2, expect.stringContaining(`Port ${port} of 127.0.0.1 is taken.`)]);
    taken.close();
    expect((await run("serve --stub --port nine")).status).toBe(2);
    const beyond = await run("serve --stub --port 65536 --log none");
    expect(beyond).toMatchObject({ status: 2, stderr: expect.stringContaining("no port 65536") });
  });

  const guarded = async (args: string, env: Record<string, string> = {}) => {
    const secret = "sk-canary-0123456789abcdef";
    const log = join(temporaryFolder(), "log");
    const { stdout, stderr, status } = await served(
      `${args.replace("KEY", secret)} --stub --log ${log} --log-content`,
      async (ask) => {
        expect((await ask(chat, brief("default-stub"))).status).toBe(401);
        expect((await ask(chat, brief("default-stub"), bearer("sk-wrong"))).status).toBe(401);
        expect((await ask(chat, brief("default-stub"), bearer(secret))).status).toBe(200);
        expect((await ask("/metrics", undefined, bearer(secret))).json.text).not.toContain(secret);
      },
      { env: Object.fromEntries(Object.entries(env).map(([name]) => [name, secret])) },
    );
    expect([status, stdout]).toEqual([0, expect.stringContaining("Whoever has the key may call.")]);
    expect(stdout + stderr + readFileSync(log, "utf8")).not.toContain(secret.slice(3));
  };
  flag("serve --api-key", async () => {
    for (const none of ["--api-key", "--auth-token"]) {
      const { status, stderr } = await run(`serve --stub ${none}  --port 0 --log none`);
      expect([status, stderr]).toEqual([2, expect.stringContaining(`${none} is empty`)]);
    }
    await guarded("--api-key KEY");
    await guarded("", { STATESET_API_KEY: "" });
    const { stdout, stderr } = await run(
      "serve --api-key sk-canary-0123456789 --host 256.1.1.1 --port 0 --stub --log none",
    );
    expect(stdout + stderr).not.toContain("canary");
  });
  flag("serve --auth-token", () => guarded("--auth-token KEY"));
  flag("serve --keys", async () => {
    const cwd = temporaryFolder();
    const [token] = (await run("keys create --name ci --file keys.json", { cwd })).stdout.split("\n");
    const { stdout } = await served(
      "--keys keys.json --stub",
      async (ask) => {
        expect((await ask("/v1/models")).status).toBe(401);
        expect((await ask("/v1/models", undefined, bearer(token!))).status).toBe(200);
      },
      { cwd },
    );
    expect(stdout).toContain("Whoever has one of its keys may call.");
    const both = await run("serve --keys keys.json --api-key sk-canary-x --stub", { cwd });
    expect([both.status, `${both.stdout}${both.stderr}`.includes("canary")]).toEqual([2, false]);
  });

  /** Three replies at once that never end; the third is told to come later where there is no room for it. */
  const third = async (args: string): Promise<number> => {
    let status = 0;
    await served(`${patient} ${args} --drain 10ms`, async (ask, url) => {
      const body = JSON.stringify({ ...endless(), stream: true });
      const init = { method: "POST", body, headers: { "content-type": "application/json" } };
      for (const _ of [1, 2]) void (await fetch(url + chat, init)).text().catch(() => {});
      const leaving = new AbortController();
      const response = await fetch(url + chat, { ...init, signal: leaving.signal });
      status = response.status;
      leaving.abort();
      await ask("/healthz");
    });
    return status;
  };
  flag("serve --slots", async () => {
    expect(await third("--slots 1 --max-waiting 0")).toBe(429);
    expect(await third("--slots 3 --max-waiting 0")).toBe(200);
    expect((await run("serve --slots 0")).status).toBe(2);
  });
  flag("serve --max-waiting", async () => {
    await served(`${patient} --slots 1 --max-waiting 0 --drain 10ms`, async (ask, url) => {
      const body = JSON.stringify({ ...endless(), stream: true, n: 2 });
      await fetch(url + chat, { method: "POST", body, headers: { "content-type": "application/json" } });
      expect((await ask(chat, { ...endless(), deadline: 10_000 })).status).toBe(429);
    });
    // With room to wait, it does until its deadline.
    await served(`${patient} --slots 1 --max-waiting 1 --drain 10ms`, async (ask, url) => {
      const body = JSON.stringify({ ...endless(), stream: true, n: 2 });
      await fetch(url + chat, { method: "POST", body, headers: { "content-type": "application/json" } });
      expect((await ask(chat, { ...endless(), deadline: 50 })).status).toBe(408);
    });
  });
  flag("serve --drain", async () => {
    let told = "";
    const { status } = await served(`${patient} --drain 10ms`, async (_, url) => {
      const body = JSON.stringify({ ...endless(), stream: true });
      const response = await fetch(url + chat, {
        ...{ method: "POST", body, headers: { "content-type": "application/json" } },
      });
      void response.text().then((text) => {
        told = text;
      });
    });
    expect(status).toBe(0);
    await expect.poll(() => told).toContain('"code":"draining"');
    expect((await run("serve --drain long")).status).toBe(2);
  });
  flag("serve --deadline", async () => {
    await served(`${patient} --deadline 100ms`, async (ask) => {
      expect((await ask(chat, endless())).json.error).toMatchObject({ code: "deadline_exceeded" });
    });
  });
  flag("serve --cache", async () => {
    const share = async (size: string): Promise<number> => {
      let found = 0;
      await served(`${place.model} --cache ${size}`, async (ask) => {
        await ask(chat, brief(basename(place.model)));
        const { text } = (await ask("/metrics")).json;
        found = Number(/^stateset_cache_share\{.*\} (\S+)$/m.exec(text as string)![1]);
      });
      return found;
    };
    expect(await share("1MiB")).toBeGreaterThan(await share("64MiB"));
    expect((await run("serve --cache big")).status).toBe(2);
  });
  engineFlags("serve", (flags) => run(`serve ${place.model} --port 0 ${flags}`));
  flag("serve --threads", async () => {
    await served(`${place.model} --threads 1`, async (ask) => {
      expect((await ask(chat, brief(basename(place.model)))).status).toBe(200);
    });
    expect((await run("serve --threads 0")).status).toBe(2);
  });
  flag("serve --allow-host", async () => {
    const asked = (url: string, host: string) =>
      new Promise<number>((settle) => {
        request(`${url}/healthz`, { headers: { host } }, (response) => settle(response.resume().statusCode!)).end();
      });
    await served("--stub --allow-host api.example", async (_, url) => {
      expect(await asked(url, "api.example")).toBe(200);
      expect(await asked(url, "evil.example")).toBe(403);
    });
  });
  flag("serve --response-cache", async () => {
    await served(`${place.model} --response-cache 4`, async (ask) => {
      const body = brief(basename(place.model));
      const [first, again] = [await ask(chat, body), await ask(chat, body)];
      expect([first, again].map(({ headers }) => headers.get("x-stateset-cached"))).toEqual([null, "1"]);
    });
  });
  const logged = async (args: string, cwd = temporaryFolder()) => {
    await served(
      `${place.model} --log out.jsonl${args}`,
      async (ask, url) => {
        await ask(chat, { ...brief(basename(place.model)), messages: [{ role: "user", content: "canary words" }] });
        const body = JSON.stringify({ ...brief(basename(place.model)), stream: true });
        await (
          await fetch(url + chat, { method: "POST", body, headers: { "content-type": "application/json" } })
        ).text();
        await ask(chat, { nothing: "of use" });
      },
      { cwd },
    );
    const lines = readFileSync(join(cwd, "out.jsonl"), "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line) as Json).filter(({ event }) => event === "served");
  };
  flag("serve --log", async () => {
    for (const nowhere of ["", "no/such/folder/log", "."]) {
      const { status, stderr } = await run(`serve --stub --port 0 --log ${nowhere}`);
      expect([status, stderr]).toEqual([2, expect.stringContaining(`--log ${nowhere} cannot be written`)]);
    }
    const lines = await logged("");
    expect(lines.map(({ status, streamed }) => [status, streamed])).toEqual([
      [200, false],
      [200, true],
      [400, false],
    ]);
    expect(lines[0]).toMatchObject({ route: `POST ${chat}`, sampledTokens: 2, keyId: "anonymous" });
    expect(JSON.stringify(lines)).not.toMatch(/canary|of use/);
  });
  flag("serve --log-content", async () => {
    const lines = await logged(" --log-content");
    expect(lines[0]).toMatchObject({
      request: { messages: [{ content: "canary words" }] },
      response: { object: "chat.completion" },
    });
    expect(lines[1]!.response.at(-1)).toBe("[DONE]");
    expect(lines[2]!.response.error.code).toBe("unknown_field");
  });
  flag("serve --redact", async () => {
    const lines = await logged(" --log-content --redact canary.w\\w+ --redact nothing");
    expect(lines[0]).toMatchObject({ request: { messages: [{ content: "[redacted]" }] } });
    expect(JSON.stringify(lines)).not.toMatch(/canary|nothing/);
    // The same in the configuration, whose other parts an agent that is named has no use for.
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, "stateset.config.json"), JSON.stringify({ serve: { redact: ["can[a]ry", "words"] } }));
    const configured = await logged(" --log-content", cwd);
    expect(configured[0]).toMatchObject({ request: { messages: [{ content: "[redacted] [redacted]" }] } });

    const refused = async (args: string, section: object) => {
      writeFileSync(join(cwd, "stateset.config.json"), JSON.stringify({ serve: section }));
      const { status, stderr } = await run(`serve ${place.model} --port 0 --log none${args}`, { cwd });
      return [status, stderr];
    };
    const [status, said] = await refused(" --redact card(", {});
    expect([status, said]).toEqual([2, expect.stringMatching(/--redact card\(: Invalid .*: Unterminated group/)]);
    const inFile = /stateset\.config\.json: serve: redact: Invalid .*: Unterminated group/;
    expect(await refused("", { redact: ["card("] })).toEqual([2, expect.stringMatching(inFile)]);
    expect(await refused("", { redacted: ["card"] })).toEqual([2, expect.stringContaining('"redact"')]);
    expect(await refused("", [])).toEqual([2, expect.stringContaining("serve")]);
  });
  flag("serve --alert", async () => {
    const alerts: Json[] = [];
    const hook = createServer((incoming, response) => {
      let text = "";
      incoming.on("data", (chunk) => {
        text += chunk;
      });
      incoming.on("end", () => {
        alerts.push(JSON.parse(text) as Json);
        response.end();
      });
    }).listen(0, "127.0.0.1");
    await new Promise((settle) => hook.once("listening", settle));
    const { port } = hook.address() as AddressInfo;
    await served(
      `${patient} --slots 1 --max-waiting 1 --drain 10ms --alert http://127.0.0.1:${port}/hook`,
      async (ask, url) => {
        const target = `target="webhook http://127.0.0.1:${port}"`;
        expect((await ask("/metrics")).json.text).toContain(`stateset_breaker_open{${target}} 0`);
        const body = JSON.stringify({ ...endless(), stream: true, n: 2 });
        for (const _ of [1, 2]) {
          void fetch(url + chat, { method: "POST", body, headers: { "content-type": "application/json" } }).catch(
            () => {},
          );
        }
        await expect.poll(() => alerts.length).toBeGreaterThan(0);
      },
    );
    hook.close();
    expect(alerts[0]).toMatchObject({ kind: "queue-full", server: "serve" });
  });
  flag("serve --no-ui", async () => {
    const bare = await served("--stub --no-ui", async (ask) => {
      expect((await ask("/ui/")).status).toBe(404);
      expect((await ask("/openapi.json")).json.paths).not.toHaveProperty("/ui/api/runs");
    });
    expect(bare.stdout).not.toContain("/ui/");
    const { stdout } = await served("--stub", async (ask) => {
      expect((await ask("/ui/api/csp-report", { "csp-report": {} })).json).toEqual({ reports: 1 });
      expect((await ask("/openapi.json")).json.paths).toHaveProperty("/ui/api/runs");
    });
    expect(stdout).toMatch(/http:\/\/127\.0\.0\.1:\d+\/ui\/ {2}the runs/);
  });
  flag("serve --ui-runs", async () => {
    const folders = [temporaryFolder(), temporaryFolder()];
    const env = { HOME: temporaryFolder(), STATESET_API_KEY: "sk-canary-0123456789abcdef" };
    await served(
      `--stub --ui-runs ${folders.join(" ")}`,
      async (ask) => {
        expect((await ask("/ui/api/runs")).status).toBe(401);
        const { json } = await ask("/ui/api/runs", undefined, bearer(env.STATESET_API_KEY));
        expect(json.folders).toEqual(folders.map((path) => ({ path, exists: true })));
        // Of a key that was given to the server, which cannot change anything.
        expect(json.readOnly).toBe(true);
      },
      { env },
    );
  });
  flag("serve --stub", async () => {
    const { stdout } = await served("--stub", async (ask) => {
      expect((await ask(chat, brief("default-stub"))).json.model).toBe("default-stub");
    });
    expect(stdout).toMatch(/default-stub {2}a stub: scripted replies/);
  });
  flag("serve --json", async () => {
    const { json } = await served("--stub --json", async () => {});
    expect(json).toMatchObject([{ type: "serving", models: [{ name: "default-stub", stub: true }], keys: false }]);
    const failed = await run("serve ./nowhere --json");
    expect([failed.status, failed.json[0]]).toEqual([5, expect.objectContaining({ type: "error", status: 5 })]);
  });

  it("answers to grpo-serve and ends well on SIGTERM", async () => {
    const process = spawnCli(["--stub", "--port", "0", "--log", "none"], temporaryFolder(), "grpo-serve");
    await process.saw(/curl/);
    process.child.kill("SIGTERM");
    expect(await process.exit, process.output()).toBe(0);
  }, 60_000);
});

complete();
