import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { addressOf, limitConnections, type NodeLimits, nodeServerOptions } from "./node-limits.ts";

let server: Server;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.closeAllConnections();
  server.close();
});

async function listen(limits: NodeLimits): Promise<number> {
  server = createServer(nodeServerOptions(limits), (request, response) => {
    request.on("end", () => response.end("ok")).resume();
  });
  limitConnections(server, limits);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** What the server says before it closes the connection; `sent` goes out first. */
function conversation(port: number, sent: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(sent));
    sockets.push(socket);
    let text = "";
    socket.on("data", (chunk) => (text += chunk));
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
  });
}

async function opened(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

it("ends headers that do not come, and bodies that do not", async () => {
  const port = await listen({ headersTimeoutMs: 50, requestTimeoutMs: 60 });
  expect(await conversation(port, "GET / HTTP/1.1\r\nhost: x\r\nx-slow: ")).toContain("408 Request Timeout");
  expect(await conversation(port, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")).toContain(
    "408 Request Timeout",
  );
});

it("refuses ten thousand headers", async () => {
  const port = await listen({});
  const headers = Array.from({ length: 10_000 }, (_, i) => `x-${i}: 1`).join("\r\n");
  expect(await conversation(port, `GET / HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n`)).toContain("431");
});

it.each([
  ["two lengths", "content-length: 1\r\ncontent-length: 2\r\n\r\nab"],
  ["a length and chunks", "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["a header over two lines", "x-a: 1\r\n b\r\nx\n: 2\r\n\r\n"],
])("refuses %s", async (_, rest) => {
  const port = await listen({});
  expect(await conversation(port, `POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${rest}`)).toContain(
    "400 Bad Request",
  );
});

it("gives an address so many connections, and another one when one is closed", async () => {
  const port = await listen({ connectionsPerAddress: 2 });
  const request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
  const [first] = [await opened(port), await opened(port)];
  expect(await conversation(port, request)).toBe("");
  first.destroy();
  await expect.poll(() => conversation(port, request)).toContain("200 OK");
});

it.each([
  ["::ffff:10.0.0.1", "10.0.0.1"],
  ["10.0.0.1", "10.0.0.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:db8::6", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["fe80::1%eth0", "fe80:0:0:0"],
])("takes %s for one of %s", (remote, address) => {
  expect(addressOf(remote)).toBe(address);
});
