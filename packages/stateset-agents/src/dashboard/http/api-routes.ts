/** What the page asks: each answer is the reader's, guarded and packed. */
import { z } from "zod";
import type { Exchange } from "../../server/exchange.ts";
import { HttpError } from "../../server/http-error.ts";
import type { Route } from "../../server/route.ts";
import {
  compareQuerySchema,
  compareSchema,
  compareSeriesQuerySchema,
  configSchema,
  evaluationsSchema,
  eventsSchema,
  groupSchema,
  liveConversationsSchema,
  runSchema,
  runsQuerySchema,
  runsSchema,
  seriesQuerySchema,
  trajectoriesQuerySchema,
  trajectoriesSchema,
  trajectorySchema,
} from "../api/index.ts";
import type { Reader } from "../read/reader.ts";
import { answerBytes, answerJson } from "./answer.ts";
import type { RunControl } from "./control.ts";
import type { LiveHub } from "./live-hub.ts";
import type { Session } from "./session.ts";

export interface ApiSources {
  reader: Reader;
  hub: LiveHub;
  control: RunControl;
  session: Session;
  readOnly: boolean;
}

const api = "/ui/api";
const nothing = z.strictObject({});
const csvQuerySchema = z.strictObject({
  metrics: z.string().min(1).max(4000).optional().describe("Separated by commas; left out: all."),
});
const liveQuerySchema = z.strictObject({
  after: z
    .string()
    .max(100)
    .optional()
    .describe("The id of the last event that is known, where no Last-Event-ID says it."),
});
const packed = "application/octet-stream";

export function apiRoutes({ reader, hub, control, session, readOnly }: ApiSources): Route[] {
  const identify: Route["identify"] = (headers, keys) => session.identify(headers, keys);
  const reads = { method: "GET", scope: "read", maxBytes: 0, limited: true, identify } as const;
  const onlyReads = ({ scopes }: Exchange["caller"]) => readOnly || !scopes.has("admin");
  /** Whoever reads listens too, sooner or later: from here on nothing is missed. */
  const json = (ask: (exchange: Exchange) => Promise<object>): Route["answer"] => {
    return async (exchange) => {
      void hub.begin();
      return answerJson(exchange, await ask(exchange));
    };
  };
  const numbers = (ask: (exchange: Exchange) => Promise<Uint8Array<ArrayBuffer>>): Route["answer"] => {
    return async (exchange) => answerBytes(exchange, await ask(exchange), packed);
  };
  const run = `${api}/runs/:run`;
  return [
    {
      ...{ ...reads, path: `${api}/runs`, query: runsQuerySchema, response: runsSchema },
      summary: "Runs of the folders, a page of them.",
      answer: json(async ({ query, caller }) => {
        const runs = await reader.runs(query);
        return { ...runs, readOnly: onlyReads(caller) };
      }),
    },
    {
      ...{ ...reads, path: run, query: nothing, response: runSchema },
      summary: "One run.",
      answer: json(async ({ params, caller }) => {
        const [data, dir] = await Promise.all([reader.run(params.run!), reader.dirOf(params.run!)]);
        return { ...data, ...control.of(dir), readOnly: onlyReads(caller) };
      }),
    },
    {
      ...{ ...reads, path: `${run}/config`, query: nothing, response: configSchema },
      summary: "The settings of a run, and which of them differ from the defaults.",
      answer: json(({ params }) => reader.config(params.run!)),
    },
    {
      ...{ ...reads, path: `${run}/events`, query: nothing, response: eventsSchema },
      summary: "What happened in a run beside its steps.",
      answer: json(({ params }) => reader.events(params.run!)),
    },
    {
      ...{ ...reads, path: `${run}/evaluations`, query: nothing, response: evaluationsSchema },
      summary: "The evaluations of a run, and what changed for each scenario.",
      answer: json(({ params }) => reader.evaluations(params.run!)),
    },
    {
      ...{ ...reads, path: `${run}/series`, query: seriesQuerySchema },
      summary: "Metrics of a run as columns of numbers.",
      answer: numbers(({ params, query }) => reader.series(params.run!, query)),
    },
    {
      ...{ ...reads, path: `${run}/csv`, query: csvQuerySchema },
      summary: "Metrics of a run as CSV.",
      async answer(exchange) {
        const { run: key } = exchange.params;
        const metrics = exchange.query.metrics?.split(",").map(decodedComma);
        const bytes = new TextEncoder().encode(await reader.csv(key!, metrics));
        const name = key!.replace(/[^\w.-]/g, "_");
        const disposition = { "content-disposition": `attachment; filename="${name}.csv"` };
        return answerBytes(exchange, bytes, "text/csv; charset=utf-8", disposition);
      },
    },
    {
      ...{ ...reads, path: `${run}/trajectories`, query: trajectoriesQuerySchema, response: trajectoriesSchema },
      summary: "Conversations of a run, a page of them.",
      answer: json(({ params, query }) => reader.trajectories(params.run!, query)),
    },
    {
      ...{ ...reads, path: `${run}/live`, query: nothing, response: liveConversationsSchema },
      summary: "The conversations that ended last.",
      answer: json(({ params }) => reader.live(params.run!)),
    },
    {
      ...{ ...reads, path: `${api}/trajectories/:trajectory`, query: nothing, response: trajectorySchema },
      summary: "One conversation.",
      answer: json(({ params }) => reader.trajectory(params.trajectory!)),
    },
    {
      ...{ ...reads, path: `${api}/trajectories/:trajectory/tokens`, query: nothing },
      summary: "Its tokens, and what was computed of each, as columns of numbers.",
      answer: numbers(({ params }) => reader.tokens(params.trajectory!)),
    },
    {
      ...{ ...reads, path: `${api}/groups/:group`, query: nothing, response: groupSchema },
      summary: "The conversations of one scenario, rewarded beside each other.",
      answer: json(({ params }) => reader.group(params.group!)),
    },
    {
      ...{ ...reads, path: `${api}/compare`, query: compareQuerySchema, response: compareSchema },
      summary: "Runs beside each other.",
      answer: json(({ query }) => reader.compare(query)),
    },
    {
      ...{ ...reads, path: `${api}/compare/series`, query: compareSeriesQuerySchema },
      summary: "A metric of several runs as columns of numbers.",
      answer: numbers(({ query }) => reader.compareSeries(query)),
    },
    {
      // It stays open for as long as the page does, and would take up what the key may ask for at a time.
      ...{ ...reads, limited: false, path: `${api}/live`, query: liveQuerySchema },
      summary: "What happens, as server-sent events.",
      answer(exchange) {
        const stream = exchange.stream({ endless: true });
        hub.listen(stream, exchange.header("last-event-id") ?? exchange.query.after);
        return stream;
      },
    },
  ];
}

function decodedComma(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new HttpError(400, `The metric "${name}" is spelt with a % that is none.`, {
      code: "invalid_value",
      param: "metrics",
    });
  }
}
