/** What browsers refused to do for the page. Each is a fault of the page, or somebody's try: it is written into the log. */
import { z } from "zod";
import type { Exchange } from "../../server/exchange.ts";
import { readFields } from "../../server/read-fields.ts";

export const cspReportSchema = z.strictObject({
  "csp-report": z.looseObject({
    "effective-directive": z.string().optional(),
    "blocked-uri": z.string().optional(),
    "line-number": z.number().optional(),
  }),
});

export const cspReportTypes = ["application/csp-report"];

/** Anybody may send them: a log is not to be filled with them. */
const mostNoted = 100;

export function createReports(): { take(exchange: Exchange): { reports: number } } {
  let reports = 0;
  return {
    take({ body, ignored, note }) {
      const { "csp-report": said } = readFields(cspReportSchema, body, { ignored });
      reports++;
      if (reports <= mostNoted) {
        const directive = /^[a-z-]{1,50}$/.exec(said["effective-directive"] ?? "")?.[0] ?? "unknown";
        note("csp-report", { directive, blocked: originOf(said["blocked-uri"]), line: said["line-number"] }, "warn");
      }
      return { reports };
    },
  };
}

/** Not all of an address: it may hold anything. */
function originOf(blocked = ""): string {
  if (/^[a-z-]{1,30}$/.test(blocked)) return blocked;
  return URL.canParse(blocked) ? new URL(blocked).origin.slice(0, 200) : "unknown";
}
