/** What a browser opens: the page, its files, and the link that lets it in. */
import { z } from "zod";
import type { Exchange } from "../../server/exchange.ts";
import { HttpError } from "../../server/http-error.ts";
import type { Route } from "../../server/route.ts";
import { encodingFor } from "./answer.ts";
import type { Asset, Assets } from "./assets.ts";
import type { Session } from "./session.ts";

/**
 * Nothing from elsewhere, nothing inline, no text that becomes code. What a browser refuses it says to api/csp-report. Pictures that the page
 * draws to be saved are blobs.
 */
const policy = [
  "default-src 'self'",
  "img-src 'self' blob:",
  "object-src 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'self'",
  "require-trusted-types-for 'script'",
  "report-uri api/csp-report",
].join("; ");

const pageHeaders = {
  "content-security-policy": policy,
  "cross-origin-opener-policy": "same-origin",
  // Asked for each time: it names the files by their hashes.
  "cache-control": "no-cache",
};

const opens = { method: "GET", scope: "open", maxBytes: 0, limited: false } as const;

export function pageRoutes(assets: Assets, session: Session): Route[] {
  return [
    {
      ...{ ...opens, path: "/ui", summary: "Leads to the dashboard." },
      answer: () => leadTo("ui/"),
    },
    {
      ...{ ...opens, path: "/ui/", summary: "The dashboard's page." },
      answer(exchange) {
        const page = assets.page();
        if (page) return answerAsset(exchange, page, pageHeaders);
        return said(503, "The page of the dashboard is not built. Run `npm run build` in the repository.");
      },
    },
    {
      ...{ ...opens, path: "/ui/assets/:file", summary: "Files of the page." },
      answer(exchange) {
        const file = assets.file(exchange.params.file ?? "");
        if (!file) throw new HttpError(404, "There is no such file.", { code: "unknown_file" });
        return answerAsset(exchange, file, { "cache-control": "public, max-age=31536000, immutable" });
      },
    },
    {
      ...{ ...opens, path: "/ui/open", summary: "Lets a browser in that comes by a link, once." },
      query: z.strictObject({ link: z.string().min(1).max(200) }),
      identify: (headers, keys) => session.identify(headers, keys),
      answer({ query, caller, header }) {
        const found = session.use(query.link!);
        const inside = leadTo("./");
        if (found === "good") {
          inside.headers.set("set-cookie", session.cookieFor(new Headers({ host: header("host") ?? "" })));
          return inside;
        }
        if (caller.scopes.has("read")) return inside;
        const what =
          found === "used" ? "This link was used already: it works once." : "This link is not one of this server's.";
        return said(403, `${what} Start \`npx stateset-agents dashboard\` again: it prints a new one.`);
      },
    },
  ];
}

async function answerAsset(exchange: Exchange, asset: Asset, headers: Record<string, string>): Promise<Response> {
  const encoding = asset.type.startsWith("image/png") ? undefined : encodingFor(exchange.header("accept-encoding"));
  const packed = encoding && { "content-encoding": encoding };
  return new Response(await asset.bytes(encoding), {
    headers: { ...headers, "content-type": asset.type, vary: "accept-encoding", ...packed },
  });
}

export function leadTo(location: string): Response {
  return new Response(null, { status: 303, headers: { location } });
}

/** For a person who sees nothing else. */
function said(status: number, text: string): Response {
  return new Response(`${text}\n`, { status, headers: { "content-type": "text/plain; charset=utf-8" } });
}
