/** Asking the server. Whatever goes wrong is an ApiError that can be shown as it is. */
import { signal } from "@preact/signals";
import { decodePacked, type Packed } from "../../../stateset-agents/src/dashboard/api/packed.ts";

export type Query = Readonly<Record<string, string | number | undefined>>;

export class ApiError extends Error {
  constructor(
    message: string,
    /** 0: the server did not answer. */
    readonly status: number,
    readonly code: string | null,
    /** The field of the request that it is about. */
    readonly param: string | null = null,
  ) {
    super(message);
  }
}

/** The server asked who this is, and how one gets in: by the link of the terminal, or with a key. */
export const signedOut = signal<"link" | "key" | undefined>(undefined);

const base = new URL("./api/", document.baseURI);

export function apiUrl(path: string, query: Query = {}): URL {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url;
}

export async function askJson<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await (await request(apiUrl(path, query), { signal: signal ?? null })).json()) as T;
}

export async function askPacked<Head>(path: string, query?: Query, signal?: AbortSignal): Promise<Packed<Head>> {
  return decodePacked<Head>(await (await request(apiUrl(path, query), { signal: signal ?? null })).arrayBuffer());
}

/** What changes something: the header is one that no form and no foreign page can send. */
export async function send<T>(path: string, body: object = {}, headers: Record<string, string> = {}): Promise<T> {
  const response = await request(apiUrl(path), {
    method: "POST",
    headers: { "content-type": "application/json", "x-stateset-ui": "1", ...headers },
    body: JSON.stringify(body),
  });
  return (await response.json()) as T;
}

/** Answers under way that nobody has asked for yet. */
const early = new Map<string, { at: number; answer: Promise<Response> }>();
const earlyMs = 10_000;

/** Asks for what a view will ask for while the view itself is still being loaded; the view is given that answer. */
export function askEarly(path: string, query: Query): void {
  const url = apiUrl(path, query);
  const answer = fetch(url, { credentials: "same-origin" });
  answer.catch(() => {});
  early.set(url.href, { at: Date.now(), answer });
}

/** Once, and not when it has become old: who asks again wants what is there now. */
function earlyAnswer(url: URL, { method = "GET" }: RequestInit): Promise<Response> | undefined {
  const known = method === "GET" ? early.get(url.href) : undefined;
  early.delete(url.href);
  return known && Date.now() - known.at < earlyMs ? known.answer : undefined;
}

async function request(url: URL, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await (earlyAnswer(url, init) ?? fetch(url, { credentials: "same-origin", ...init }));
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("The server does not answer.", 0, null);
  }
  if (response.ok) return response;
  const said = (await response.json().catch(() => undefined)) as { error?: Partial<Said> } | undefined;
  const { message = `The server answered ${response.status}.`, code = null, param = null } = said?.error ?? {};
  if (response.status === 401) signedOut.value = code === "no_session" ? "link" : "key";
  throw new ApiError(message, response.status, code, param);
}

interface Said {
  message: string;
  code: string | null;
  param: string | null;
}
