/**
 * Who looks at the page. A browser cannot be given a key to send, so it gets a cookie: by a link that works once (a dashboard of its own), or for
 * a key (beside a server that has keys). The server keeps no list of them: what a cookie is good for stands sealed inside it.
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { HttpError } from "../../server/http-error.ts";
import { authenticate } from "../../server/key/authenticate.ts";
import type { Caller, Keys } from "../../server/key/caller.ts";
import { hashOf } from "../../server/key/token.ts";
import { anybody } from "../../server/serve-exchange.ts";
import { createSeal, type Seal } from "./seal.ts";

/** What opens the page: the link alone, or the keys of the server it is part of. Without keys there, whoever reaches it. */
export type Access = "link" | "keys";

export interface Session {
  /** Of a request. Throws 401. */
  identify(headers: Headers, keys: Keys | undefined): Caller;
  /** What the link ends in; it works once. */
  newLink(): string;
  /** Spends a link. */
  use(link: string): "good" | "used" | "unknown";
  /** The Set-Cookie of whoever came by the link, or with a key. */
  cookieFor(headers: Headers, key?: string): string;
}

interface Sealed {
  /** Milliseconds since 1970. */
  until: number;
  /** Asked for again with each request: one that was revoked ends the session too. */
  key?: string;
}

const lastsSeconds = 7 * 24 * 3600;

/** Whoever started the server. */
const owner: Caller = { keyId: "link", project: "default", scopes: new Set(["read", "admin"]), limits: {} };

export interface SessionOptions {
  access: Access;
  /** Asked for when the first cookie comes, or is made. */
  secret: () => Uint8Array;
  /** What the cookie is for: that of one dashboard does not open another that has other folders. */
  folders: readonly string[];
  now?: () => number;
}

export function createSession({ access, secret, folders, now = Date.now }: SessionOptions): Session {
  let made: Seal | undefined;
  const seal = () => {
    made ??= createSeal(secret(), JSON.stringify(["cookie", access, ...folders]));
    return made;
  };
  /** Hashes of links, and whether they were used. */
  const links: { hash: Buffer; used: boolean }[] = [];
  const sealedIn = (headers: Headers): Sealed | undefined => {
    const cookie = cookieIn(headers);
    const text = cookie === undefined ? undefined : seal().open(cookie);
    if (text === undefined) return undefined;
    const sealed = JSON.parse(text) as Sealed;
    return sealed.until > now() ? sealed : undefined;
  };
  return {
    identify(headers, keys) {
      if (access === "link") {
        if (sealedIn(headers)) return owner;
        throw new HttpError(
          401,
          "This browser was not let in, or too long ago. Open the link that the terminal shows.",
          {
            code: "no_session",
          },
        );
      }
      if (!keys) return anybody;
      const sent = headers.get("authorization");
      const key = sent === null ? sealedIn(headers)?.key : undefined;
      return authenticate(keys, key === undefined ? sent : `Bearer ${key}`);
    },
    newLink() {
      const link = randomBytes(32).toString("base64url");
      links.push({ hash: hashOf(link), used: false });
      return link;
    },
    use(link) {
      const hash = hashOf(link);
      // All of them, whichever it is.
      const [found] = links.filter((one) => timingSafeEqual(one.hash, hash));
      if (!found) return "unknown";
      if (found.used) return "used";
      found.used = true;
      return "good";
    },
    cookieFor(headers, key) {
      const sealed: Sealed = { until: now() + lastsSeconds * 1000, ...(key !== undefined && { key }) };
      const secure = headers.get("origin")?.startsWith("https:") ? "; Secure" : "";
      const value = seal().seal(JSON.stringify(sealed));
      return `${nameOf(headers)}=${value}; Max-Age=${lastsSeconds}; Path=/ui/; HttpOnly; SameSite=Strict${secure}`;
    },
  };
}

/** Cookies know no ports: two dashboards of one machine would take each other's. */
function nameOf(headers: Headers): string {
  const [, port = "default"] = /:(\d{1,5})$/.exec(headers.get("host") ?? "") ?? [];
  return `stateset-ui-${port}`;
}

function cookieIn(headers: Headers): string | undefined {
  const start = `${nameOf(headers)}=`;
  const pairs = (headers.get("cookie") ?? "").split(";").map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(start))?.slice(start.length);
}
