/** Limits of Node's own HTTP server: before a request is one of ours, it must have arrived, in time and in size. */
import type { Server, ServerOptions } from "node:http";
import type { Socket } from "node:net";

export interface NodeLimits {
  /** For the headers to arrive. Default 10,000. */
  headersTimeoutMs?: number | undefined;
  /** For the whole request to arrive. Replies may take as long as they like. Default 60,000. */
  requestTimeoutMs?: number | undefined;
  /** How long an idle connection is kept. Default 5,000. */
  keepAliveTimeoutMs?: number | undefined;
  /** Of all headers together. Default 16 KiB. */
  maxHeaderBytes?: number | undefined;
  /** Connections of one address at a time; of IPv6, of one /64. Default 1,000. */
  connectionsPerAddress?: number | undefined;
  /** Connections in all. Default 10,000. */
  connections?: number | undefined;
}

/** What can only be said when the server is made: `createServer(nodeServerOptions(limits), …)`. */
export function nodeServerOptions(limits: NodeLimits = {}): ServerOptions {
  const { headersTimeoutMs = 10_000, requestTimeoutMs = 60_000, keepAliveTimeoutMs = 5_000 } = limits;
  return {
    maxHeaderSize: limits.maxHeaderBytes ?? 16_384,
    headersTimeout: headersTimeoutMs,
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: keepAliveTimeoutMs,
    // Node looks for late ones only this often: every 30 s unless told.
    connectionsCheckingInterval: Math.min(1000, headersTimeoutMs),
    // Two headers that say where a body ends are how requests are smuggled past a proxy.
    insecureHTTPParser: false,
  };
}

/** The rest, for a server that is there. */
export function limitConnections(server: Server, limits: NodeLimits = {}): void {
  const { connectionsPerAddress = 1000, connections = 10_000 } = limits;
  server.maxConnections = connections;
  const open = new Map<string, number>();
  server.on("connection", (socket: Socket) => {
    const address = addressOf(socket.remoteAddress);
    const count = (open.get(address) ?? 0) + 1;
    if (count > connectionsPerAddress) {
      socket.destroy();
      return;
    }
    open.set(address, count);
    socket.once("close", () => {
      const left = open.get(address)! - 1;
      if (left > 0) open.set(address, left);
      else open.delete(address);
    });
  });
}

/** One name for each machine: IPv4 without its mapped form, of IPv6 the network that one subscriber has. */
export function addressOf(remote = ""): string {
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(remote) ?? [];
  if (mapped !== undefined || !remote.includes(":")) return mapped ?? remote;
  const [head = "", tail] = remote.toLowerCase().replace(/%.*$/, "").split("::");
  const groups = head === "" ? [] : head.split(":");
  const behind = tail ? tail.split(":") : [];
  const all =
    tail === undefined ? groups : [...groups, ...Array<string>(8 - groups.length - behind.length).fill("0"), ...behind];
  return all.slice(0, 4).join(":");
}
