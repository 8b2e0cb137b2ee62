/** A port that requests come in by. */
import { createServer as createNodeServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { StatesetError } from "../error.ts";
import { urlHost } from "../network.ts";
import { limitConnections, type NodeLimits, nodeServerOptions } from "./guard/node-limits.ts";
import { HttpError } from "./http-error.ts";
import { refusal } from "./serve-exchange.ts";

export interface OpenPort {
  node: Server;
  url: string;
  port: number;
}

export async function openPort(
  fetch: (request: Request) => Promise<Response>,
  { host, port, connections }: { host: string; port: number; connections?: NodeLimits | undefined },
): Promise<OpenPort> {
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new StatesetError("INVALID_OPTION", `There is no port ${port}.`, { hint: "Ports go from 0 to 65535." });
  }
  // Node would take it for every address.
  if (host === "") throw new StatesetError("INVALID_OPTION", "The host to listen on is empty.");
  const { getRequestListener, RequestError } = await import("@hono/node-server");
  const errorHandler = (error: unknown) => refusal(error instanceof RequestError ? malformed(error) : error);
  const listener = getRequestListener(fetch, { overrideGlobalObjects: false, errorHandler });
  const node = createNodeServer(nodeServerOptions(connections), listener);
  limitConnections(node, connections);
  await listening(node, host, port);
  const { port: own } = node.address() as AddressInfo;
  return { node, url: `http://${urlHost(host)}:${own}`, port: own };
}

/** Of what is HTTP, but no request that anybody could be asked. */
function malformed(cause: Error): HttpError {
  return new HttpError(400, "The address or the Host header of the request is malformed.", {
    code: "invalid_host",
    cause,
  });
}

function listening(node: Server, host: string, port: number): Promise<void> {
  return new Promise((settle, reject) => {
    node.once("error", (cause: NodeJS.ErrnoException) => {
      const why = cause.code === "EADDRINUSE" ? "is taken" : `cannot be opened (${cause.code})`;
      reject(
        new StatesetError("INVALID_OPTION", `Port ${port} of ${host} ${why}.`, { hint: "Choose another.", cause }),
      );
    });
    node.listen(port, host, settle);
  });
}
