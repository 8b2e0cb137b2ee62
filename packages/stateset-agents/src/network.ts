/** What everything that asks a server shares: secrets kept out of what is said, and the proxies of the environment. */

export interface Endpoint {
  /** The address without user, password and trailing slash: what requests go to. */
  url: string;
  /** The same without a query, which may hold a key: what may be shown and written. */
  shown: string;
  /** What goes along with each request in place of the user and password. */
  headers: Record<string, string>;
  /** A text, such as a server's answer, without the secrets it may echo. */
  redact(text: string): string;
}

/** An address that may hold credentials, and what else is secret about it, by what it is called where it was. */
export function endpointOf(address: string, secrets: Readonly<Record<string, string | undefined>> = {}): Endpoint {
  const url = new URL(address);
  const [user, password] = [decoded(url.username), decoded(url.password)];
  const basic = Buffer.from(`${user}:${password}`).toString("base64");
  const given = Object.entries(secrets).map(
    ([name, value]) => [name, value?.replace(/^(?:Bearer|Basic) /i, "")] as const,
  );
  const redact = redactor([
    ...given,
    ...(user || password
      ? ([
          ["credentials", basic],
          ["credentials", `${user}:${password}`],
          ["credentials", `${url.username}:${url.password}`],
        ] as const)
      : []),
    // Whatever its length: a password is a secret, and so is a token that stands for the user.
    ...[password, url.password, ...(password === "" ? [user, url.username] : [])].map(
      (one) => ["credentials", one, 1] as const,
    ),
    ["query", url.search.slice(1)] as const,
    ...[...url.searchParams].map(([name, value]) => [name, value] as const),
  ]);
  url.username = "";
  url.password = "";
  const plain = url.href.replace(/\/+$/, "");
  return {
    url: plain,
    shown: plain.split(/[?#]/)[0]!.replace(/\/+$/, ""),
    headers: user || password ? { authorization: `Basic ${basic}` } : {},
    redact,
  };
}

/** A host as URLs write it: IPv6 in brackets. */
export function urlHost(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

/** A secret, by what it is called where it was, and from how many characters on it counts as one. */
export type Secret = readonly [name: string, secret: string | undefined, least?: number];

/** Takes secrets out of a text. */
export function redactor(secrets: readonly Secret[]): (text: string) => string {
  const hidden = secrets
    // Short ones are no secrets, and would take every other word of a text.
    .flatMap(([name, secret = "", least = 6]) => (secret.length >= least ? [[name, secret] as const] : []))
    .sort(([, a], [, b]) => b.length - a.length);
  return (text) => hidden.reduce((rest, [name, secret]) => rest.replaceAll(secret, `[${name}]`), text);
}

/** A literal % stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A path below an address, in front of its query. */
export function pathBelow(address: string, path: string): string {
  const url = new URL(address);
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/${path}`;
  return url.href;
}

let throughProxy: Promise<typeof fetch> | undefined;

/** fetch(), by way of HTTPS_PROXY and HTTP_PROXY unless NO_PROXY names the host. Node's own does not look at them. */
export const request: typeof fetch = async (input, init) => {
  const names = ["https_proxy", "http_proxy"];
  if (!names.some((name) => process.env[name] || process.env[name.toUpperCase()])) return fetch(input, init);
  throughProxy ??= openProxy();
  return (await throughProxy)(input, init);
};

async function openProxy(): Promise<typeof fetch> {
  const { EnvHttpProxyAgent, fetch: undiciFetch } = await import("undici");
  const dispatcher = new EnvHttpProxyAgent();
  const send = undiciFetch as unknown as (input: unknown, init: object) => Promise<Response>;
  return (input, init) => send(input, { ...init, dispatcher });
}
