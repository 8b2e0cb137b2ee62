/** What comes before a request is one: slow, malformed and smuggled ones, too many of them, and those meant for somebody else. */
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Attacked, bodiesOf, openAttacked, routes } from "./attacked-server.ts";

let attacked: Attacked;
let key: string;
let port: number;
const most = 40;
beforeAll(async () => {
  attacked = await openAttacked({
    connections: { headersTimeoutMs: 300, requestTimeoutMs: 600, keepAliveTimeoutMs: 300, connectionsPerAddress: most },
  });
  key = await attacked.newKey();
  ({ port } = await attacked.server.listen({ port: 0 }));
});
afterAll(() => attacked.close());

const open = new Set<Socket>();
function dial(): Socket {
  const socket = connect(port, "127.0.0.1");
  open.add(socket);
  socket.on("error", () => {}).on("close", () => open.delete(socket));
  return socket;
}

/** Sends the pieces, and resolves to all that came back until the server closed. */
function send(...pieces: (string | Buffer)[]): Promise<string> {
  return new Promise((settle) => {
    const socket = dial();
    let answer = "";
    socket.on("data", (data) => {
      answer += data.toString("latin1");
    });
    socket.on("close", () => settle(answer));
    for (const piece of pieces) socket.write(piece);
  });
}

const health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
const close = "Connection: close\r\n\r\n";
const statusesOf = (answer: string) => [...answer.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => Number(status));
const chat = JSON.stringify(bodiesOf(routes.find(({ path }) => path === "/v1/chat/completions")!)[0]);
const post = (headers: string, body: string) =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${headers}\r\n${body}`;

const stillServes = async () => expect(statusesOf(await send(health + close))).toEqual([200]);

describe("a connection", () => {
  it("whose headers do not come is ended", async () => {
    expect(statusesOf(await send("GET /healthz HTTP/1.1\r\nHost: loc"))).toEqual([408]);
    expect(statusesOf(await send(""))).not.toContain(200);
    await stillServes();
  });

  it("whose headers come drop by drop is ended", async () => {
    const socket = dial();
    const drops = setInterval(() => socket.write("X-a: b\r\n"), 20);
    socket.write("GET /healthz HTTP/1.1\r\n");
    await new Promise((settle) => socket.on("close", settle).resume());
    clearInterval(drops);
  });

  it("whose body does not come, or drop by drop, is ended, and leaves nothing behind", async () => {
    expect(statusesOf(await send(post("Content-Length: 1000\r\n", '{"model"')))).toEqual([408]);
    const socket = dial();
    socket.write(post("Transfer-Encoding: chunked\r\n", ""));
    const drops = setInterval(() => socket.write("1\r\n \r\n"), 20);
    await new Promise((settle) => socket.on("close", settle).resume());
    clearInterval(drops);
    await stillServes();
  });

  it("with ten thousand headers, or larger ones than there may be, is refused", async () => {
    const many = Array.from({ length: 10_000 }, (_, i) => `X-${i}: a\r\n`).join("");
    expect(statusesOf(await send(health + many + close))).toEqual([431]);
    expect(statusesOf(await send(`${health}X-a: ${"a".repeat(20_000)}\r\n${close}`))).toEqual([431]);
    expect(statusesOf(await send(`GET /${"a".repeat(65_536)} HTTP/1.1\r\nHost: localhost\r\n${close}`))).toEqual([431]);
    await stillServes();
  });

  it("too many of one address are closed, and others go on once they are gone", async () => {
    const flood = Array.from({ length: most * 2 }, dial);
    const left = await new Promise<number>((settle) => {
      let closed = 0;
      for (const socket of flood) {
        socket.resume().on("close", () => {
          if (++closed === most) settle(flood.filter(({ destroyed }) => !destroyed).length);
        });
      }
    });
    expect(left).toBeLessThanOrEqual(most);
    await Promise.all(
      flood.map((socket) => new Promise((gone) => (socket.destroyed ? gone(0) : socket.once("close", gone).destroy()))),
    );
    await expect.poll(async () => statusesOf(await send(health + close))).toEqual([200]);
  });

  it("that sends garbage behind a request is ended there", async () => {
    const answer = await send(`${health}\r\n\0\0\x16\x03\x01 what\r\n\r\n${health}${close}`);
    // The first may be answered before the rest is read, or not at all.
    expect(statusesOf(answer).at(-1)).toBe(400);
    expect(statusesOf(answer).length).toBeLessThanOrEqual(2);
  });
});

describe("a request", () => {
  it.each([
    ["of HTTP/0.9", "GET /healthz\r\n\r\n"],
    ["of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["without a host", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"],
    ["with an unknown method", `HACK /healthz HTTP/1.1\r\nHost: localhost\r\n${close}`],
    ["with a header broken by CR", `${health}X-a: b\rX-b: c\r\n${close}`],
    ["with a header broken by LF", `${health}X-a\n: b\r\n${close}`],
    ["with a NUL in a header", `${health}X-a: b\0c\r\n${close}`],
    ["with a folded header", `${health}X-a: b\r\n c\r\n${close}`],
    ["with a space before a colon", `${health}X-a : b\r\n${close}`],
    ["with a space in its path", `GET /health z HTTP/1.1\r\nHost: localhost\r\n${close}`],
    ["with two lengths", `${health}Content-Length: 1\r\nContent-Length: 2\r\n${close}a`],
    ["with a negative length", `${health}Content-Length: -1\r\n${close}`],
    ["with a length in hex", `${health}Content-Length: 0x1\r\n${close}a`],
    ["with a chunk of no size", `${health}Transfer-Encoding: chunked\r\n${close}zz\r\n`],
    ["TE and CL", `${health}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n${close}0\r\n\r\n`],
    ["TE that is hidden", `${health}Transfer-Encoding: xchunked\r\n${close}0\r\n\r\n`],
  ])("%s is refused", async (_, text) => {
    const answer = await send(text);
    const statuses = statusesOf(answer);
    expect(statuses.length, answer).toBeLessThanOrEqual(1);
    for (const status of statuses) expect(status).toBe(400);
    expect(answer).not.toContain("node");
    await stillServes();
  });

  it("smuggled inside the body of another is none", async () => {
    const inner = `GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    for (const headers of [
      `Content-Length: ${inner.length + 5}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n`,
      `Transfer-Encoding: chunked\r\nContent-Length: ${inner.length + 5}\r\nConnection: close\r\n`,
      `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nConnection: close\r\n`,
    ]) {
      const answer = await send(post(headers, `0\r\n\r\n${inner}`));
      expect(
        statusesOf(answer).filter((status) => status < 400),
        answer,
      ).toEqual([]);
      expect(answer).not.toContain('"object":"list"');
    }
  });

  it("gets an id that is its own only where it cannot be anything else", async () => {
    const idOf = (answer: string) => /^x-request-id: (.*)\r$/m.exec(answer)?.[1];
    expect(idOf(await send(`${health}X-Request-Id: mine-1\r\n${close}`))).toBe("mine-1");
    for (const id of ["a b", "a\tb", "a;b", "é", "a".repeat(129), "<script>", "a%0d%0aSet-Cookie: x"])
      expect(idOf(await send(`${health}X-Request-Id: ${id}\r\n${close}`))).toMatch(/^req_[0-9a-f]{24}$/);
    const answer = await send(`${health}X-Request-Id: a\r\nSet-Cookie: x\r\n${close}`);
    expect(answer).not.toContain("Set-Cookie");
  });

  it("of HEAD gets headers alone, where GET would get an answer", async () => {
    const answer = await send(`HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n${close}`);
    expect(statusesOf(answer)).toEqual([200]);
    expect(answer).toMatch(/\r\n\r\n$/);
    const refused = await send(`HEAD /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n${close}`);
    expect(statusesOf(refused)).toEqual([405]);
    expect(statusesOf(await send(`HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n${close}`))).toEqual([401]);
  });

  it.each(["TRACE", "CONNECT", "OPTIONS", "PROPFIND"])("of %s is not answered with anything", async (method) => {
    const secret = "X-Secret: canary-4711\r\n";
    const answer = await send(`${method} /healthz HTTP/1.1\r\nHost: localhost\r\n${secret}${close}`);
    expect(answer).not.toContain("canary-4711");
    expect(statusesOf(answer).filter((status) => status < 400)).toEqual([]);
    await stillServes();
  });

  it("that asks for another protocol stays one of this", async () => {
    const upgrade = `${health}Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n`;
    expect(statusesOf(await send(upgrade)).filter((status) => status < 200)).toEqual([]);
    await stillServes();
  });
});

describe("a request for somebody else", () => {
  const asked = async (headers: string, path = "/v1/models") =>
    send(`GET ${path} HTTP/1.1\r\nAuthorization: Bearer ${key}\r\n${headers}${close}`);

  it("by a name that leads here is refused, on every route and elsewhere", async () => {
    for (const host of ["evil.example", `evil.example:${port}`, "localhost.evil.example", "127.0.0.1.evil.example"]) {
      for (const path of [...routes.map((route) => route.path.replace(/:\w+(\{.*?\})?/g, "x")), "/nothing"]) {
        const answer = await asked(`Host: ${host}\r\n`, path);
        expect(statusesOf(answer), `${path} ${answer}`).toEqual([403]);
        expect(answer).toContain('"invalid_host"');
      }
    }
  });

  it("by an address in another spelling, or one that is no host, is refused", async () => {
    for (const host of [
      "0x7f.1",
      "2130706433",
      "[::ffff:127.0.0.1]",
      "0",
      "localhost@evil",
      "localhost/evil",
      "a b",
      "[::1",
      "localhost:99999999",
      "",
    ])
      for (const status of statusesOf(await asked(`Host: ${host}\r\n`))) expect([400, 403]).toContain(status);
    const twice = await asked("Host: localhost\r\nHost: evil.example\r\n");
    for (const status of statusesOf(twice)) expect([400, 403]).toContain(status);
    const absolute = await send(`GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\n${close}`);
    for (const status of statusesOf(absolute)) expect([400, 403]).toContain(status);
  });

  it("by a name of this machine is answered", async () => {
    for (const host of ["localhost", `localhost:${port}`, "127.0.0.1", "127.9.9.9:80", "[::1]:80", "LOCALHOST"])
      expect(statusesOf(await asked(`Host: ${host}\r\n`)), host).toEqual([200]);
  });

  it("from a page of another origin is refused, whatever it sends", async () => {
    for (const origin of [
      "http://evil.example",
      "null",
      "file://",
      "http://localhost:1",
      "http://localhost.evil.example",
    ])
      expect(statusesOf(await asked(`Host: localhost\r\nOrigin: ${origin}\r\n`)), origin).toEqual([403]);
    expect(statusesOf(await asked(`Host: localhost:${port}\r\nOrigin: http://localhost:${port}\r\n`))).toEqual([200]);
    const preflight = await send(
      `OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n${close}`,
    );
    expect(statusesOf(preflight)).toEqual([403]);
    expect(preflight.toLowerCase()).not.toContain("access-control-");
  });
});

it("after all of this nothing runs, nothing waits, and it still answers", async () => {
  expect(statusesOf(await send(post(`Content-Length: ${chat.length}\r\nConnection: close\r\n`, chat)))).toEqual([200]);
  expect(attacked.policy.stats()).toMatchObject({ running: 0, waiting: 0 });
  expect(open.size).toBe(0);
});
