/** What changes something is asked for by the page itself, or by a program with a key: never by another page that a browser has open. */
import type { Exchange } from "../../server/exchange.ts";
import { HttpError } from "../../server/http-error.ts";

/** A header that no form can send, and no page of another origin without being asked first. */
const ownHeader = "x-stateset-ui";

/** Throws 403. The scope was looked at already. */
export function requireWrite({ header }: Exchange, readOnly: boolean): void {
  if (readOnly) throw refused("This dashboard was started with --read-only: it changes nothing.", "read_only");
  if (header(ownHeader) === undefined)
    throw refused(`What changes something needs the header ${ownHeader}.`, "header_missing");
  const [origin, host] = [header("origin")?.toLowerCase(), (header("host") ?? "").toLowerCase()];
  // Browsers always say where such a request comes from.
  if (origin === undefined && header("authorization") !== undefined) return;
  if (origin === undefined || !["http", "https"].some((scheme) => origin === `${scheme}://${host}`)) {
    throw refused("What changes something may be asked for by the dashboard's own page alone.", "invalid_origin");
  }
}

function refused(message: string, code: string): HttpError {
  return new HttpError(403, message, { code });
}
