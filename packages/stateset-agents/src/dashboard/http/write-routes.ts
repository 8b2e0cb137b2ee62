/** What the page changes: notes of runs, and whether they run. And how a key becomes a cookie. */
import { z } from "zod";
import type { Exchange } from "../../server/exchange.ts";
import { readFields } from "../../server/read-fields.ts";
import type { Route } from "../../server/route.ts";
import { notesRequestSchema, notesSchema } from "../api/index.ts";
import { answerJson } from "./answer.ts";
import type { ApiSources } from "./api-routes.ts";
import { createReports, cspReportSchema, cspReportTypes } from "./csp-report.ts";
import { createNotes } from "./notes.ts";
import { requireWrite } from "./write-guard.ts";

const api = "/ui/api";
const nothing = z.strictObject({});

export function writeRoutes({ reader, control, session, readOnly }: ApiSources): Route[] {
  const identify: Route["identify"] = (headers, keys) => session.identify(headers, keys);
  const writes = { method: "POST", scope: "admin", maxBytes: 1024, limited: true, identify } as const;
  const notes = createNotes((run) => reader.dirOf(run));
  const reports = createReports();
  /** The body is looked at after who asks and from where. */
  const guarded = (change: (exchange: Exchange) => Promise<object>): Route["answer"] => {
    return async (exchange) => {
      requireWrite(exchange, readOnly);
      return answerJson(exchange, await change(exchange));
    };
  };
  const empty = ({ body, ignored }: Exchange) => readFields(nothing, body, { ignored, status: 422 });
  return [
    {
      ...{ ...writes, path: `${api}/notes`, maxBytes: 1 << 17, body: notesRequestSchema, response: notesSchema },
      summary: "Tags, note and archive of a run; what is left out stays.",
      answer: guarded(({ body, ignored }) =>
        notes.write(readFields(notesRequestSchema, body, { ignored, status: 422 })),
      ),
    },
    {
      ...{ ...writes, path: `${api}/runs/:run/stop`, body: nothing, response: z.object({ pid: z.number() }) },
      summary: "Ask a run of this machine to save and to end.",
      answer: guarded(async (exchange) => {
        empty(exchange);
        return control.stop(await reader.dirOf(exchange.params.run!));
      }),
    },
    {
      ...{ ...writes, path: `${api}/runs/:run/resume`, body: nothing },
      response: z.object({ pid: z.number(), log: z.string() }),
      summary: "Go on with a run that the command line started.",
      answer: guarded(async (exchange) => {
        empty(exchange);
        return control.resume(await reader.dirOf(exchange.params.run!));
      }),
    },
    {
      ...{ ...writes, scope: "read", path: `${api}/session`, body: nothing },
      response: z.object({ scopes: z.array(z.string()) }),
      summary: "A cookie for the key that is sent, so that a browser need not keep it.",
      answer(exchange) {
        readFields(nothing, exchange.body, exchange);
        const { caller, header } = exchange;
        const key = /^Bearer (.+)$/i.exec(header("authorization") ?? "")?.[1];
        const response = Response.json({ scopes: [...caller.scopes] });
        // Without keys, and by the link, it is not the key that lets anybody in.
        if (key === undefined || ["anonymous", "link"].includes(caller.keyId)) return response;
        const from = new Headers({ host: header("host") ?? "", origin: header("origin") ?? "" });
        response.headers.set("set-cookie", session.cookieFor(from, key));
        return response;
      },
    },
    {
      ...{ method: "POST", scope: "open", limited: false, path: `${api}/csp-report`, maxBytes: 1 << 13 },
      ...{ types: cspReportTypes, body: cspReportSchema, response: z.object({ reports: z.number() }) },
      summary: "What a browser refused to do for the page.",
      answer: (exchange) => reports.take(exchange),
    },
  ];
}
