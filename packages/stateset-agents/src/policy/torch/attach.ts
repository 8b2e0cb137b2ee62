/** A worker that somebody else started: on this machine, on another, under Slurm. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect, isIP, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, rootCertificates } from "node:tls";
import { withGrace } from "../../abort.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { Connection, type Loss } from "./connection.ts";
import { greet } from "./greet.ts";
import { isBusy } from "./reply.ts";
import { silence, wasDoing } from "./what-happened.ts";
import type { WorkerLink } from "./worker-link.ts";

export interface AttachOptions {
  /** `torch://host:port` */
  url: string;
  /** `ca`: a file with the certificates to trust, beside those of the system. */
  tls?: { ca: string } | undefined;
  deadlineMs: number;
  pingMs?: number | undefined;
  logDir?: string | undefined;
  onBeat?: (() => void) | undefined;
  /** How long to ask again where it is busy with another client. Default 0. */
  busyMs?: number | undefined;
}

const connectMs = 20_000;
const leaveMs = 5_000;
const askAgainMs = 1_000;

export async function attachWorker({ busyMs = 0, ...options }: AttachOptions): Promise<WorkerLink> {
  const until = performance.now() + busyMs;
  for (;;) {
    try {
      return await attachOnce(options);
    } catch (error) {
      if (busyMs === 0 || !isBusy(error)) throw error;
      if (performance.now() + askAgainMs > until) {
        throw new StatesetError("WORKER_REFUSED", `${messageOf(error)} It was asked for ${busyMs / 1000} s.`, {
          cause: error,
        });
      }
    }
    await sleep(askAgainMs);
  }
}

async function attachOnce({ url, tls, logDir, ...options }: Omit<AttachOptions, "busyMs">): Promise<WorkerLink> {
  const { host, port, loopback } = addressOf(url);
  const token = process.env.STATESET_WORKER_TOKEN;
  if (!token) {
    throw new StatesetError(
      "INVALID_OPTION",
      `The worker at ${url} wants a token, and STATESET_WORKER_TOKEN is not set.`,
      {
        hint: "Set it to the text that the worker was started with.",
      },
    );
  }
  const socket = await open(host, port, loopback && !tls ? undefined : (tls ?? {}), url);
  let greeted = false;
  const explain = (loss: Loss) => {
    const { stacks } = loss;
    const file = stacks === undefined ? undefined : keepStacks(logDir, stacks);
    const unknown = tls
      ? "Is it a worker?"
      : "Is it a worker, and does it speak TLS? torch.tls.ca then names its certificates.";
    const doing = file !== undefined ? `What it was doing is in ${file}.` : stacks !== undefined && wasDoing(stacks);
    return new StatesetError("WORKER_LOST", `The PyTorch worker at ${url} ${loss.what}${silence(loss)}.`, {
      hint: !greeted ? unknown : doing || "What it printed says more.",
    });
  };
  const connection = new Connection(socket, { ...options, explain });
  try {
    const hello = await greet(connection, url, token);
    greeted = true;
    return {
      connection,
      hello,
      async close(error) {
        // It lives on: what the model took is free again when this is over.
        if (!connection.lost)
          await withGrace(() => connection.call("close"), AbortSignal.abort(), leaveMs).catch(() => {});
        connection.close(error);
      },
    };
  } catch (error) {
    connection.close(new StatesetError("POLICY_CLOSED", `The connection to ${url} was closed.`));
    throw error;
  }
}

export function addressOf(url: string): { host: string; port: number; loopback: boolean } {
  // Whoever writes a token here must not find it in a log.
  const shown = url.replace(/\/\/.*@/s, "//[hidden]@").replace(/[?#].*/s, (rest) => `${rest[0]}[hidden]`);
  const invalid = (hint: string) =>
    new StatesetError("INVALID_OPTION", `${JSON.stringify(shown)} is no address of a worker.`, { hint });
  if (!/^torch:\/\//.test(url) || !URL.canParse(url.replace(/^torch/, "http"))) {
    throw invalid("It looks like torch://host:port.");
  }
  const { hostname, username, password, pathname, search, hash } = new URL(url.replace(/^torch/, "http"));
  if (username || password || search || hash || pathname !== "/") {
    throw invalid("It is torch://host:port and no more; the token goes into STATESET_WORKER_TOKEN.");
  }
  // Read from the text: of a URL the port that is usual for http is left out.
  const port = /:(\d+)\/?$/.exec(url)?.[1];
  if (port === undefined) throw invalid("It lacks the port: torch://host:port.");
  const host = hostname.replace(/^\[|\]$/g, "");
  return { host, port: Number(port), loopback: host === "localhost" || host === "::1" || /^127\./.test(host) };
}

function open(host: string, port: number, tls: { ca?: string } | undefined, url: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) => {
      socket.destroy();
      reject(
        new StatesetError("ENGINE_UNAVAILABLE", `The worker at ${url} cannot be reached: ${messageOf(cause)}.`, {
          hint: tls
            ? "Is it running, and with --tls-cert and --tls-key? `torch.tls.ca` names the certificates to trust."
            : "Is it running there? `python -m stateset_agents_worker --listen host:port` starts one.",
          cause,
        }),
      );
    };
    const ca = tls?.ca === undefined ? {} : { ca: [...rootCertificates, readCertificates(tls.ca)] };
    const name = isIP(host) ? {} : { servername: host };
    const socket = tls ? connectTls({ host, port, ...name, ...ca }) : connect({ host, port });
    const late = setTimeout(fail, connectMs, new Error(`no answer within ${connectMs / 1000} s`));
    socket.once("error", fail);
    socket.once(tls ? "secureConnect" : "connect", () => {
      clearTimeout(late);
      socket.off("error", fail);
      socket.setNoDelay(true);
      resolve(socket);
    });
    socket.once("close", () => clearTimeout(late));
  });
}

function readCertificates(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new StatesetError("INVALID_OPTION", `torch.tls.ca cannot be read: ${messageOf(cause)}.`, { cause });
  }
}

/** Undefined where there is no place for them: they are then part of the error. */
function keepStacks(logDir: string | undefined, stacks: string): string | undefined {
  if (logDir === undefined) return undefined;
  const file = join(logDir, "worker-stacks.txt");
  try {
    mkdirSync(logDir, { recursive: true });
    writeFileSync(file, stacks);
    return file;
  } catch {
    return undefined;
  }
}
