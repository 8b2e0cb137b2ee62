import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Counter } from "prom-client";
import type { SamplerStats } from "../../policy/policy.ts";
import type { Observer } from "./observer.ts";

/** What is read when somebody asks for the metrics, not before. */
export interface MetricSources {
  models(): Iterable<MeasuredModel>;
  breakers(): Iterable<MeasuredBreaker>;
  /** The patterns of the route table. Whatever else was asked for counts under no route: clients must not make labels. */
  routes(): Iterable<string>;
  /** Lines of the log that could not be written. */
  logLost?(): number;
}

export interface MeasuredModel {
  name: string;
  version: string;
  stats: SamplerStats;
  /** Of the queue in front of the engine. */
  waiting: number;
  running: number;
  /** What `stats.cacheBytes` may grow to. */
  cacheBytesMax: number;
}

export interface MeasuredBreaker {
  target: string;
  open: boolean;
  /** How often it opened. */
  opened: number;
}

export interface Metrics extends Observer {
  /** The Prometheus text format. */
  text(): Promise<string>;
  readonly contentType: string;
  close(): void;
}

const queueBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const firstTokenBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const interTokenBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2];

/** How often the event loop is looked at; what it measures is the time between looks, this included. */
const lagResolutionMs = 10;

/**
 * Counts what was served and reads the rest from its sources at each scrape. Labels are the routes of the table, the models served,
 * status codes, the server's own error codes and breakers' targets: nothing that a client wrote, and no keys.
 */
export async function createMetrics(sources: MetricSources): Promise<Metrics> {
  const { Counter, Gauge, Histogram, Registry } = await import("prom-client");
  const registers = [new Registry()];
  const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name: `stateset_${name}`, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Gauge({ name: `stateset_${name}`, help, labelNames, registers });
  const seconds = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `stateset_${name}`, help, labelNames: ["model"], buckets, registers });

  const requests = counter("requests_total", "Requests answered.", "route", "status", "model", "code");
  const queue = seconds("queue_seconds", "From the request to its place in the engine.", queueBuckets);
  const firstToken = seconds("first_token_seconds", "From the request to its first token.", firstTokenBuckets);
  const interToken = seconds("inter_token_seconds", "From one token of a reply to the next.", interTokenBuckets);
  const prompt = counter("prompt_tokens_total", "Tokens of prompts.", "model");
  const cached = counter("cached_tokens_total", "Tokens of prompts that did not have to be computed.", "model");
  const sampled = counter("sampled_tokens_total", "Tokens sampled.", "model");
  const chains = counter("chains_total", "Conversations that went on from sampled tokens, or began.", "outcome");

  const waiting = gauge("waiting", "Requests in the queue.", "model");
  const running = gauge("running", "Replies that are being sampled.", "model");
  const cacheBytes = gauge("cache_bytes", "Memory of keys and values.", "model");
  const cacheShare = gauge("cache_share", "That memory over what it may grow to.", "model");
  const versions = gauge("versions", "Weights that are alive.", "model");
  const info = gauge("model_info", "The version that new requests get; always 1.", "model", "version");
  const breakerOpen = gauge("breaker_open", "1 while calls to the target are held back.", "target");
  const breakerOpened = counter("breaker_opened_total", "How often calls to the target were held back.", "target");
  const lag = gauge("event_loop_lag_seconds", "Lag of the event loop since the last scrape.", "quantile");
  const logLost = counter("log_lost_total", "Lines of the log that could not be written.");

  const modelLabel = labelOf(() => Array.from(sources.models(), ({ name }) => name));
  const routeLabel = labelOf(() => sources.routes());
  const loop = monitorEventLoopDelay({ resolution: lagResolutionMs });
  loop.enable();

  const readModels = () => {
    for (const one of [waiting, running, cacheBytes, cacheShare, versions, info]) one.reset();
    for (const { name: model, version, stats, cacheBytesMax, ...now } of sources.models()) {
      waiting.set({ model }, now.waiting);
      running.set({ model }, now.running);
      cacheBytes.set({ model }, stats.cacheBytes);
      cacheShare.set({ model }, cacheBytesMax > 0 ? stats.cacheBytes / cacheBytesMax : 0);
      versions.set({ model }, stats.versions);
      info.set({ model, version }, 1);
    }
  };
  const readBreakers = () => {
    for (const one of [breakerOpen, breakerOpened]) one.reset();
    for (const { target, open, opened } of sources.breakers()) {
      breakerOpen.set({ target }, open ? 1 : 0);
      breakerOpened.inc({ target }, opened);
    }
  };
  const readLag = () => {
    for (const quantile of [0.5, 0.99, 1]) {
      const ms = loop.count === 0 ? 0 : loop.percentile(quantile * 100) / 1e6 - lagResolutionMs;
      lag.set({ quantile: String(quantile) }, Math.max(0, ms / 1000));
    }
    loop.reset();
  };

  return {
    contentType: registers[0]!.contentType,
    served(one) {
      const model = modelLabel(one.model);
      const route = routeLabel(one.route);
      requests.inc({ route, status: statusOf(one.status), model, code: one.errorCode ?? "" });
      if (one.queuedMs !== undefined) queue.observe({ model }, one.queuedMs / 1000);
      if (one.firstTokenMs !== undefined) firstToken.observe({ model }, one.firstTokenMs / 1000);
      if (one.interTokenMs !== undefined && one.interTokenMs.length > 0) {
        // The labels are looked up once for all the tokens of a reply.
        const child = interToken.labels(model);
        for (const ms of one.interTokenMs) child.observe(ms / 1000);
      }
      add(prompt, model, one.promptTokens);
      add(cached, model, one.cachedTokens);
      add(sampled, model, one.sampledTokens);
      if (one.chain !== undefined) chains.inc({ outcome: one.chain });
    },
    async text() {
      readModels();
      readBreakers();
      readLag();
      logLost.reset();
      logLost.inc(sources.logLost?.() ?? 0);
      return registers[0]!.metrics();
    },
    close() {
      loop.disable();
      registers[0]!.clear();
    },
  };
}

/** Lets names through that are known, and makes no label of others: one without a value is the same as none. */
function labelOf(read: () => Iterable<string>): (name: string | undefined) => string {
  let names = new Set<string>();
  return (name) => {
    if (name === undefined) return "";
    if (!names.has(name)) names = new Set(read());
    return names.has(name) ? name : "";
  };
}

function statusOf(status: number): string {
  return Number.isInteger(status) && status >= 100 && status <= 599 ? String(status) : "";
}

/** Requests that are about no model, as those for health, make no series of zeros. */
function add(counter: Counter<"model">, model: string, count: number): void {
  if (count > 0) counter.inc({ model }, count);
}
