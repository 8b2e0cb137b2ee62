import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { linkSignals } from "./abort.ts";
import { openaiJudgeModel } from "./endpoint/openai-judge-model.ts";
import { endpointOf } from "./network.ts";

const servers: Server[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  vi.resetModules();
  for (const server of servers.splice(0)) server.close();
});

async function serve(
  answer: (request: IncomingMessage) => [number, string],
): Promise<{ port: number; server: Server }> {
  const server = createServer((request, response) => {
    const [status, body] = answer(request);
    response.writeHead(status).end(body);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, server };
}

const asked = {
  messages: [{ role: "user" as const, content: "hi" }],
  temperature: 0,
  seed: 1,
  maxTokens: 8,
  signal: new AbortController().signal,
};

describe("an address that holds secrets", () => {
  it("sends them, and shows them nowhere: not in its id, not in what a server echoes, not when nobody answers", async () => {
    let seen = "";
    const { port } = await serve((request) => {
      seen = `${request.url} ${request.headers.authorization} ${request.headers["x-team-key"]}`;
      return [403, `refused: ${seen}`];
    });
    const secrets = { "x-team-key": "tk-88aa77bb66" };
    const model = openaiJudgeModel({
      model: "m",
      baseURL: `http://anna:p%40ssw0rd@127.0.0.1:${port}/v1?api-version=2025-key-123`,
      headers: secrets,
    });
    const failure = await model.complete(asked).catch((error: Error) => error);
    expect(seen).toBe(
      `/v1/chat/completions?api-version=2025-key-123 Basic ${Buffer.from("anna:p@ssw0rd").toString("base64")} tk-88aa77bb66`,
    );
    const dead = openaiJudgeModel({ model: "m", baseURL: "http://anna:p%40ssw0rd@127.0.0.1:9/v1", headers: secrets });
    const unreachable = await dead.complete(asked).catch((error: Error) => error);
    const said = [failure, unreachable]
      .flatMap((error) => [String(error), (error as Error).stack, String((error as Error).cause)])
      .concat(model.id, dead.id)
      .join("\n");
    expect(said).toContain("HTTP 403");
    expect(said).toContain("no connection to http://127.0.0.1:9/v1");
    for (const secret of ["p@ssw0rd", "p%40ssw0rd", "tk-88aa77bb66", "2025-key-123", "YW5uYTpwQHNzdzByZA"])
      expect(said).not.toContain(secret);
  });
});

describe("an address that the operator gave", () => {
  it("may be on this machine, and is not left by a redirect that a server sends", async () => {
    let stolen = 0;
    const { port: elsewhere } = await serve(() => {
      stolen++;
      return [200, "{}"];
    });
    const { port, server } = await serve(() => [200, '{"choices":[{"message":{"content":"7"}}]}']);
    const model = openaiJudgeModel({ model: "m", baseURL: `http://localhost:${port}/v1`, apiKey: "key-123456" });
    expect(await model.complete(asked)).toEqual({ text: "7" });
    server.removeAllListeners("request");
    server.on("request", (_, response) =>
      response.writeHead(307, { location: `http://localhost:${elsewhere}/v1/chat/completions` }).end(),
    );
    await expect(model.complete(asked)).rejects.toThrow(/redirects elsewhere/);
    expect(stolen).toBe(0);
  });
});

describe("what is redacted", () => {
  it.each([
    ["http://TOKENSECRET@host/v1", ["TOKENSECRET"]],
    ["http://bob:s3cr@host/v1", ["s3cr", "bob:s3cr"]],
    ["http://bob:100%hunter22@host/v1", ["100%hunter22"]],
  ])("%s", (address, secrets) => {
    const { url, shown, redact } = endpointOf(address);
    const said = [url, shown, ...secrets.map((secret) => redact(`refused ${secret}!`))].join(" ");
    for (const secret of secrets) expect(said).not.toContain(secret);
  });

  it("is not what was never an address", () => {
    vi.stubEnv("OPENAI_BASE_URL", "bob:hunter22@host");
    const thrown = (() => {
      try {
        return openaiJudgeModel({ model: "m" }).id;
      } catch (error) {
        return String(error);
      }
    })();
    expect(thrown).toContain("OPENAI_BASE_URL is no address");
    expect(thrown).not.toContain("hunter22");
  });
});

describe("the proxies of the environment", () => {
  /** A proxy whose every tunnel ends at the port; where to they were asked for. */
  async function proxyTo(port: number): Promise<{ proxy: number; tunnels: string[] }> {
    const tunnels: string[] = [];
    const { port: proxy, server } = await serve(() => [500, "a tunnel was expected"]);
    server.on("connect", ({ url = "" }, client, head) => {
      tunnels.push(url);
      const upstream = connect(port, "127.0.0.1", () => {
        client.write("HTTP/1.1 200 OK\r\n\r\n");
        upstream.write(head);
        upstream.pipe(client).pipe(upstream);
      });
    });
    return { proxy, tunnels };
  }

  it("are gone through by judges, also with a signal of ours", async () => {
    const { port } = await serve(() => [200, '{"choices":[{"message":{"content":"7"}}]}']);
    const { proxy, tunnels } = await proxyTo(port);
    vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${proxy}`);
    const model = openaiJudgeModel({ model: "m", baseURL: "http://judge.example/v1" });
    const { signal } = linkSignals(new AbortController().signal);
    expect(await model.complete({ ...asked, signal })).toEqual({ text: "7" });
    expect(tunnels).toEqual(["judge.example:80"]);
  });

  it("are gone through, but for the hosts of NO_PROXY", async () => {
    const { port } = await serve(() => [200, "from the server"]);
    const { proxy, tunnels } = await proxyTo(port);
    vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${proxy}`);
    vi.stubEnv("NO_PROXY", "inside.example");
    const { request } = await import("./network.ts");
    const response = await request(`http://outside.example:${port}/a`);
    expect(await response.text()).toBe("from the server");
    expect(tunnels).toEqual([`outside.example:${port}`]);
    await expect(request("http://inside.example:1/a")).rejects.toThrow();
    expect(tunnels).toHaveLength(1);
  });
});
