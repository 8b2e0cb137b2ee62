import { type ServerAlert, serverAlertKinds } from "../../alert.ts";
import { type HealthSources, troublesOf } from "./health.ts";
import type { Observer, Served } from "./observer.ts";

export interface WatchOptions {
  /** What the server is called in its alerts. */
  server: string;
  sources: HealthSources;
  /** May fail or reject: that is its own business. */
  onAlert: (alert: ServerAlert) => void | Promise<void>;
  /** The share of the last minute's requests that failed from which on somebody is told. Default 0.2. */
  errorShare?: number | undefined;
  /** Of fewer requests in a minute a share says nothing. Default 20. */
  fewest?: number | undefined;
  /** From one alert of a kind to the next. Default 300,000. */
  cooldownMs?: number | undefined;
}

export interface Watch extends Observer {
  close(): void;
}

/** How often readiness is looked at when no request fails. */
const lookMs = 1000;
const windowMs = 60_000;

/** Asked by machines, and rightly answered with 503 at times. */
const probes = /\/(?:healthz|readyz|metrics)$/;

/** Tells of a full queue, an engine that failed and too many errors, of each kind once in a while. Times are those of a clock that is never set back. */
export function watchServer(options: WatchOptions): Watch {
  const { server, sources, onAlert, errorShare = 0.2, fewest = 20, cooldownMs = 300_000 } = options;
  const counts = lastMinute();
  const told = new Map<ServerAlert["kind"], number>();
  const tell = (kind: ServerAlert["kind"], message: string) => {
    const now = performance.now();
    if (now - (told.get(kind) ?? Number.NEGATIVE_INFINITY) < cooldownMs) return;
    told.set(kind, now);
    void (async () => onAlert({ kind, server, message }))().catch(() => {});
  };
  const look = () => {
    for (const { kind, message } of troublesOf(sources)) {
      const known = serverAlertKinds.find((one) => one === kind);
      if (known) tell(known, message);
    }
  };
  const timer = setInterval(look, lookMs);
  timer.unref();
  return {
    served({ route, status, failed: own }: Served) {
      // One that ends turns away whoever comes, and that is no trouble.
      if (probes.test(route) || sources.draining()) return;
      counts.add(own);
      // A queue may be full for less than the time between two looks.
      if (status === 429 || own) look();
      const { all, failed } = counts.sum();
      if (all >= fewest && failed / all >= errorShare) {
        tell("error-rate", `${failed} of the last minute's ${all} requests failed.`);
      }
    },
    close: () => clearInterval(timer),
  };
}

/** Counts by the second, so that a busy minute takes no more room than a quiet one. */
function lastMinute() {
  let seconds: { at: number; all: number; failed: number }[] = [];
  const drop = () => {
    const oldest = Math.floor((performance.now() - windowMs) / 1000);
    if (seconds[0] && seconds[0].at <= oldest) seconds = seconds.filter(({ at }) => at > oldest);
  };
  return {
    add(failed: boolean) {
      const at = Math.floor(performance.now() / 1000);
      if (seconds.at(-1)?.at !== at) seconds.push({ at, all: 0, failed: 0 });
      const second = seconds.at(-1)!;
      second.all++;
      if (failed) second.failed++;
    },
    sum() {
      drop();
      const total = { all: 0, failed: 0 };
      for (const { all, failed } of seconds) {
        total.all += all;
        total.failed += failed;
      }
      return total;
    },
  };
}
