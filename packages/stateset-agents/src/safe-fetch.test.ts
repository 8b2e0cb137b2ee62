import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import net, { type AddressInfo, type LookupFunction } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { kindOf } from "./safe-address.ts";
import { type SafeFetchOptions, type SafeRequest, safeFetch } from "./safe-fetch.ts";

const servers: Server[] = [];
beforeEach(() => {
  for (const name of ["https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"]) vi.stubEnv(name, undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<number> {
  const server = createServer(answer);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** A resolver that gives its answers in turn, the last one for ever. */
function resolver(...answers: string[][]): LookupFunction {
  let asked = 0;
  return (_, options, done) => {
    const found = answers[Math.min(asked++, answers.length - 1)]!.map((address) => ({
      address,
      family: net.isIP(address),
    }));
    setImmediate(() => (options.all ? done(null, found) : done(null, found[0]!.address, found[0]!.family)));
  };
}

/** Connections are not made; where they would have gone is noted. */
function stubConnections(): string[] {
  const reached: string[] = [];
  vi.spyOn(net, "connect").mockImplementation(((options: { host: string; lookup: LookupFunction }) => {
    const socket = new net.Socket();
    const fail = (error: Error | null) => setImmediate(() => socket.destroy(error ?? new Error("not really")));
    if (net.isIP(options.host)) {
      reached.push(options.host);
      fail(null);
    } else {
      options.lookup(options.host, { all: true }, (error, found) => {
        if (Array.isArray(found)) reached.push(...found.map(({ address }) => address));
        fail(error);
      });
    }
    return socket;
  }) as unknown as typeof net.connect);
  return reached;
}

const ask = (url: string, options: Partial<SafeFetchOptions> = {}, init: SafeRequest = {}) =>
  safeFetch(url, init, { maxBytes: 1000, timeoutMs: 5000, ...options });
const refused = expect.objectContaining({ code: "FETCH_REFUSED" }) as Error;

const open = "93.184.216.34";
const spellings = [
  // This machine, in IPv4.
  "127.0.0.1",
  "127.1",
  "127.0.1",
  "2130706433",
  "0x7f000001",
  "0x7f.0x0.0x0.0x1",
  "0x7F.1",
  "017700000001",
  "0177.0.0.1",
  "00000177.0.0.01",
  "0177.0x0.1",
  "127.0.0.1.",
  "127.8.9.1",
  "127.255.255.254",
  "%31%32%37.0.0.1",
  "１２７.0.0.1",
  "127。0。0。1",
  "①②⑦.⓪.⓪.①",
  "0",
  "0.0.0.0",
  "0x0",
  "00.0.0.0",
  // In IPv6, and IPv4 inside it.
  "[::1]",
  "[0:0:0:0:0:0:0:1]",
  "[0000::0001]",
  "[::]",
  "[::ffff:127.0.0.1]",
  "[::ffff:7f00:1]",
  "[0:0:0:0:0:ffff:127.0.0.1]",
  "[::127.0.0.1]",
  "[::ffff:0:127.0.0.1]",
  "[64:ff9b::127.0.0.1]",
  "[64:ff9b:1::127.0.0.1]",
  "[64:ff9b::8.8.8.8]",
  "[2002:7f00:1::]",
  "[2002:a9fe:a9fe::]",
  "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
  "[fe80::1]",
  "[fe80::1%25eth0]",
  "[fe80::1%eth0]",
  "[fec0::1]",
  "[fc00::1]",
  "[fd12:3456::1]",
  "[ff02::1]",
  "[100::1]",
  "[2001:db8::1]",
  "[3fff::1]",
  "[5f00::1]",
  // Networks inside, and what clouds keep there.
  "10.0.0.1",
  "10.1",
  "0xa.1",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.0.1",
  "192.168.257",
  "100.64.0.1",
  "169.254.169.254",
  "2852039166",
  "0xa9fea9fe",
  "0251.0376.0251.0376",
  "169.254.1",
  "[fd00:ec2::254]",
  "[::ffff:169.254.169.254]",
  "168.63.129.16",
  "192.0.0.192",
  "198.18.0.1",
  "224.0.0.1",
  "239.255.255.250",
  "240.0.0.1",
  "255.255.255.255",
];
const names: [string, string[]][] = [
  ["localhost", ["127.0.0.1", "::1"]],
  ["localhost.", ["127.0.0.1"]],
  ["a.localhost", ["::1"]],
  ["LOCALHOST", ["127.0.0.1"]],
  ["metadata.google.internal", ["169.254.169.254"]],
  ["127.0.0.1.nip.example", ["127.0.0.1"]],
  ["one-of-two.example", [open, "10.0.0.1"]],
  ["mapped.example", ["::ffff:127.0.0.1"]],
  ["zone.example", ["fe80::1%eth0"]],
  ["nothing.example", []],
];

describe("an address that a request brings", () => {
  it(`is refused in ${spellings.length + names.length} spellings of somewhere inside, on every port and with both protocols`, async () => {
    expect(spellings.length + names.length).toBeGreaterThanOrEqual(60);
    const reached = stubConnections();
    for (const host of spellings) {
      for (const url of [`http://${host}/`, `https://${host}:8443/latest?x=1`]) {
        const outcome: unknown = await ask(url).catch((error: unknown) => error);
        // A zone in a URL is none to begin with.
        if (URL.canParse(url)) expect(outcome, url).toEqual(refused);
        else expect(outcome, url).toBeInstanceOf(TypeError);
      }
    }
    for (const [host, found] of names) {
      await expect(ask(`http://${host}/`, { lookup: resolver(found) }), host).rejects.toEqual(refused);
    }
    expect(reached).toEqual([]);
  });

  it.each([
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:70/_x",
    "data:text/plain,x",
    "http://user:pw@example.com/",
  ])("is refused as %s", async (url) => {
    const reached = stubConnections();
    const error = (await ask(url).catch((thrown: unknown) => thrown)) as Error;
    expect(error).toEqual(refused);
    expect(error.message).not.toContain("pw");
    expect(reached).toEqual([]);
  });

  it("is connected to where it was checked, whatever its name says a moment later", async () => {
    const reached = stubConnections();
    const rebinding = resolver([open], ["127.0.0.1"], [open], ["169.254.169.254"], [open, "127.0.0.1"], ["10.0.0.1"]);
    for (let i = 0; i < 8; i++) await expect(ask("http://rebind.example/", { lookup: rebinding })).rejects.toThrow();
    expect(reached).toEqual([open, open]);
  });

  it("may be public", async () => {
    const reached = stubConnections();
    for (const host of ["1.1.1.1", "[2606:4700:4700::1111]", "134744072"])
      await expect(ask(`http://${host}/`)).rejects.not.toEqual(refused);
    expect(reached).toEqual(["1.1.1.1", "2606:4700:4700::1111", "8.8.8.8"]);
  });

  it("is checked as far as this machine knows it when a proxy is to look it up", async () => {
    const proxy = await serve(() => {});
    const tunnels: string[] = [];
    servers.at(-1)!.on("connect", ({ url = "" }, client) => {
      tunnels.push(url);
      client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    });
    vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${proxy}`);
    await expect(ask("http://inside.example/", { lookup: resolver(["10.0.0.1"]) })).rejects.toEqual(refused);
    await expect(ask("http://127.0.0.1/")).rejects.toEqual(refused);
    const unknown: LookupFunction = (_, __, done) => done(new Error("ENOTFOUND"), []);
    await expect(ask("http://known-to-the-proxy.example/", { lookup: unknown })).rejects.not.toEqual(refused);
    expect(tunnels).toEqual(["known-to-the-proxy.example:80"]);
  });
});

describe("the list of what is allowed", () => {
  const ok = (_: IncomingMessage, response: ServerResponse) => response.end("yes");

  it.each([
    ["a host and its port", (port: number) => [`127.0.0.1:${port}`], true],
    ["a host", () => ["127.0.0.1"], true],
    ["a network", () => ["127.0.0.0/8"], true],
    ["another spelling of the host", (port: number) => [`0x7f.1:${port}`], true],
    ["another port", (port: number) => [`127.0.0.1:${port + 1}`], false],
    ["another host", () => ["127.0.0.2"], false],
    ["another network", () => ["10.0.0.0/8"], false],
  ])("%s", async (_, allow, reaches) => {
    const port = await serve(ok);
    const answer = ask(`http://127.0.0.1:${port}/`, { allow: allow(port) });
    if (reaches) expect(await (await answer).text()).toBe("yes");
    else await expect(answer).rejects.toEqual(refused);
  });

  it("does not lend its connections to calls that it does not allow", async () => {
    const port = await serve(ok);
    const allow = [`127.0.0.1:${port}`];
    await ask(`http://127.0.0.1:${port}/`, { allow });
    await expect(ask(`http://127.0.0.1:${port}/`)).rejects.toEqual(refused);
  });

  it("lets a name that the operator gave be inside, on the port that was given", async () => {
    const port = await serve(ok);
    const lookup = resolver(["127.0.0.1", "fe80::1"]);
    const allow = [`judge.internal:${port}`];
    expect(await (await ask(`http://judge.internal:${port}/`, { allow, lookup })).text()).toBe("yes");
    await expect(ask(`http://judge.internal:${port + 1}/`, { allow, lookup })).rejects.toEqual(refused);
  });

  it("does not let such a name come inside once it was outside", async () => {
    const reached = stubConnections();
    const allow = ["judge.example:80"];
    const rebinding = resolver([open], ["127.0.0.1"], [open], ["10.0.0.1", open]);
    const errors: string[] = [];
    for (let i = 0; i < 4; i++)
      await ask("http://judge.example/", { allow, lookup: rebinding }).catch((error: Error) =>
        errors.push(error.message),
      );
    expect(errors[1]).toContain("it was a public one before");
    expect(reached).toEqual([open, open, open]);
  });

  it("does not let such a name lead to metadata", async () => {
    const reached = stubConnections();
    const allow = ["judge.example:80"];
    for (const address of ["169.254.169.254", "fd00:ec2::254", "0.0.0.0"])
      await expect(ask("http://judge.example/", { allow, lookup: resolver([address]) })).rejects.toEqual(refused);
    expect(reached).toEqual([]);
  });

  it.each(["10.0.0.0/99", "a b", "http://x", "x:y", "", "user@host"])("cannot hold %j", async (entry) => {
    await expect(ask("http://1.1.1.1/", { allow: [entry] })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });
});

describe("an answer", () => {
  const local = (port: number) => ({ allow: [`127.0.0.1:${port}`] });

  it("has its status, headers and body, and the request what was given", async () => {
    const port = await serve((request, response) => {
      response.writeHead(201, { "x-a": "1", "content-encoding": "gzip" });
      response.end(gzipSync(`${request.method} ${request.headers["x-b"]}`));
    });
    const response = await ask(`http://127.0.0.1:${port}/`, local(port), {
      method: "PUT",
      headers: { "x-b": "2" },
      body: "x",
    });
    expect([response.status, response.headers.get("x-a"), await response.text()]).toEqual([201, "1", "PUT 2"]);
  });

  it("may be empty", async () => {
    const port = await serve((_, response) => response.writeHead(204).end());
    expect((await ask(`http://127.0.0.1:${port}/`, local(port))).status).toBe(204);
  });

  it("is broken off when it is too large, packed or not", async () => {
    let left = false;
    const port = await serve((request, response) => {
      if (request.url === "/packed") {
        response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("a".repeat(1_000_000)));
        return;
      }
      response.on("close", () => (left = true));
      const more = () => {
        while (!response.destroyed && response.write("a".repeat(1000))) {}
      };
      response.on("drain", more);
      more();
    });
    for (const path of ["packed", "endless"])
      await expect(ask(`http://127.0.0.1:${port}/${path}`, local(port))).rejects.toThrow(/more than 1000 bytes/);
    await expect.poll(() => left).toBe(true);
  });

  it("that does not come in time is an error, also in the middle of it", async () => {
    const port = await serve((request, response) => {
      if (request.url === "/half") response.write("half");
    });
    for (const path of ["none", "half"])
      await expect(ask(`http://127.0.0.1:${port}/${path}`, { ...local(port), timeoutMs: 60 })).rejects.toMatchObject({
        name: "TimeoutError",
      });
  });

  it("is not waited for when the caller stops", async () => {
    const port = await serve(() => {});
    const caller = new AbortController();
    const waiting = ask(`http://127.0.0.1:${port}/`, local(port), { signal: caller.signal });
    caller.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
  });
});

describe("a redirect", () => {
  it("is followed where it stays, as fetch() follows it", async () => {
    const seen: string[] = [];
    const port = await serve((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers["content-type"]}`);
      const next: Record<string, [number, string]> = { "/a": [307, "/b"], "/b": [302, `http://127.0.0.1:${port}/c`] };
      const [status, location] = next[request.url!] ?? [200, ""];
      response.writeHead(status, location ? { location } : {}).end("there");
    });
    const init = { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } };
    const response = await ask(`http://127.0.0.1:${port}/a`, { allow: [`127.0.0.1:${port}`] }, init);
    expect(await response.text()).toBe("there");
    expect(seen).toEqual(["POST /a application/json", "POST /b application/json", "GET /c undefined"]);
  });

  it("is not followed elsewhere, nor for ever", async () => {
    let hits = 0;
    const elsewhere = await serve((_, response) => {
      hits++;
      response.end();
    });
    let asked = 0;
    const port = await serve((request, response) => {
      asked++;
      response.writeHead(302, { location: decodeURIComponent(request.url!.slice(1)) || "/" }).end();
    });
    const to = (location: string) =>
      ask(`http://127.0.0.1:${port}/${encodeURIComponent(location)}`, { allow: ["127.0.0.1", "localhost"] });
    for (const location of [
      `http://127.0.0.1:${elsewhere}/`,
      `//127.0.0.1:${elsewhere}/`,
      `http://localhost:${port}/`,
      `https://127.0.0.1:${port}/`,
      `http://u:p@127.0.0.1:${port}/`,
      "file:///etc/passwd",
      "http://[bad",
    ])
      await expect(to(location), location).rejects.toThrow(/redirects elsewhere/);
    expect(hits).toBe(0);
    asked = 0;
    await expect(to("/")).rejects.toThrow(/more than 3 times/);
    expect(asked).toBe(4);
  });
});

it.each([
  ["8.8.8.8", "public"],
  ["2606:4700::1", "public"],
  ["192.168.1.1", "inside"],
  ["fd12::1", "inside"],
  ["100.100.0.1", "inside"],
  ["64:ff9b::808:808", "inside"],
  ["64:ff9b::a9fe:a9fe", "never"],
  ["::ffff:8.8.8.8", "never"],
  ["nonsense", "never"],
])("%s is %s", (address, kind) => {
  expect(kindOf(address).kind).toBe(kind);
});
