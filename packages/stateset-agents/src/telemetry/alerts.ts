import { spawn } from "node:child_process";
import { z } from "zod";
import { type RunAlert, runAlertKinds, type ServerAlert, serverAlertKinds } from "../alert.ts";
import { counted } from "../counted.ts";
import { type Breaker, createBreaker } from "../endpoint/breaker.ts";
import { messageOf, StatesetError } from "../error.ts";
import { endpointOf } from "../network.ts";
import { parseOptions } from "../options.ts";
import type { RunCallbacks } from "../run/callbacks.ts";
import { entryFor } from "../safe-address.ts";
import { type SafeFetchOptions, safeFetch } from "../safe-fetch.ts";

export const alertKinds = [...runAlertKinds, ...serverAlertKinds] as const;
export type AlertKind = (typeof alertKinds)[number];

export const alertsSchema = z.strictObject({
  webhook: z.url().optional(),
  command: z.string().min(1).optional(),
  on: z.array(z.enum(alertKinds)).default([...alertKinds]),
  timeoutMs: z.number().positive().default(10_000),
});

export interface AlertOptions {
  /** Gets a POST with the alert as JSON. May hold a secret, so it is never printed. */
  webhook?: string | undefined;
  /** Run by the shell with the alert as JSON on standard input and STATESET_ALERT_KIND, _MESSAGE and _RUN or _SERVER set. */
  command?: string | undefined;
  /** Default: all of them. */
  on?: AlertKind[] | undefined;
  /** Default 10,000. */
  timeoutMs?: number | undefined;
}

export type Alert = RunAlert | ServerAlert;

/** Sends alerts of the kinds that were asked for. One that cannot be delivered is a warning, nothing more: this never rejects. */
export function alertSender(
  options: AlertOptions,
  warn: (message: string) => void = console.warn,
): (alert: Alert) => Promise<void> {
  const { webhook, command, on, timeoutMs } = parseOptions(alertsSchema, options, "alerts");
  const hook = webhook === undefined ? undefined : openHook(webhook, timeoutMs);
  return async (alert) => {
    if (!on.includes(alert.kind)) return;
    // Each is caught where it is begun: one may fail while another is still waited for.
    const attempt = (way: string, sent: Promise<void>) =>
      sent.catch((error: unknown) => warn(`The ${alert.kind} alert could not be sent by ${way}: ${messageOf(error)}.`));
    await Promise.all([
      ...(hook === undefined ? [] : [attempt("webhook", hook(alert))]),
      ...(command === undefined ? [] : [attempt("command", execute(command, alert, timeoutMs))]),
    ]);
  };
}

/**
 * Tells someone when a run finished, failed or became unhealthy: a verdict that is more than a note, once for each kind of trouble.
 */
export function alertWith(options: AlertOptions, warn: (message: string) => void = console.warn): RunCallbacks {
  const send = alertSender(options, warn);
  const told = new Set<string>();
  let run = "";
  return {
    onStart({ id }) {
      run = id;
    },
    async onVerdict(verdict) {
      if (verdict.severity === "note" || told.has(verdict.kind)) return;
      told.add(verdict.kind);
      await send({ kind: "unhealthy", run, steps: verdict.step, message: `${verdict.message} ${verdict.advice}` });
    },
    async onEnd({ status, steps, reason }) {
      if (status === "interrupted") return;
      const kind = status === "failed" ? "failed" : "finished";
      await send({ kind, run, steps, message: reason ?? `The run ${kind} after ${counted(steps, "step")}.` });
    },
  };
}

/** As of judges. */
const hookBreaker = { failures: 5, resetMs: 30_000 };

/** A webhook that keeps failing is left alone for a while, as a judge is. */
function openHook(webhook: string, timeoutMs: number): (alert: Alert) => Promise<void> {
  // One list for all alerts: what it has seen of the address counts for the next one too.
  const limits = { allow: [entryFor(webhook)], timeoutMs };
  // Metrics show it, and the path of many a webhook is its secret.
  const target = `webhook ${new URL(webhook).origin}`;
  const breaker = createBreaker(hookBreaker, () => performance.now(), target);
  return async (alert) => {
    const wait = breaker.waitMs();
    if (wait > 0) throw new Error(`it kept failing, and is left alone for another ${Math.ceil(wait / 1000)} s`);
    const status = await post(webhook, alert, limits).catch((error: unknown) => {
      breaker.report(false);
      throw error;
    });
    reportStatus(breaker, status);
    if (status < 200 || status > 299) throw new Error(`the server answered ${status}`);
  };
}

/** Whoever refuses an alert, or is asked too often, is alive. */
function reportStatus(breaker: Breaker, status: number): void {
  if (status === 429) breaker.withdraw();
  else breaker.report(status < 500);
}

/** Of an answer that nobody reads. */
const maxBytes = 1 << 20;

/** The status of its answer. */
async function post(
  webhook: string,
  alert: Alert,
  limits: Pick<SafeFetchOptions, "allow" | "timeoutMs">,
): Promise<number> {
  try {
    const { url, headers } = endpointOf(webhook);
    const init = {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(alert),
    };
    return (await safeFetch(url, init, { ...limits, maxBytes })).status;
  } catch (error) {
    // fetch names the address in some of its errors; only the bare reason is passed on.
    if (StatesetError.isInstance(error) || (error instanceof Error && error.name === "TimeoutError")) throw error;
    const cause = error instanceof Error ? (error.cause as { code?: string } | undefined) : undefined;
    throw new Error(cause?.code ?? "request failed");
  }
}

function execute(command: string, alert: Alert, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, {
      shell: true,
      // Its own group, so that a timeout also ends what the shell started.
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
      env: {
        ...process.env,
        STATESET_ALERT_KIND: alert.kind,
        ...("run" in alert ? { STATESET_ALERT_RUN: alert.run } : { STATESET_ALERT_SERVER: alert.server }),
        STATESET_ALERT_MESSAGE: alert.message,
      },
    });
    const timer = setTimeout(() => {
      try {
        process.kill(-child.pid!, "SIGKILL");
      } catch {
        // It ended just now.
      }
      reject(new Error(`still running after ${timeoutMs} ms`));
    }, timeoutMs);
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.on("exit", (code, signal) => {
      clearTimeout(timer);
      if (code === 0) resolve();
      else reject(new Error(`exit ${code ?? signal}`));
    });
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(alert));
  });
}
