/**
 * fetch() for the transport over HTTP, with what it does not do itself: a body without end is broken off, a stream that breaks off ends
 * the call that waits for it, and a call that was cancelled lets go of its connection.
 */
import { linkSignals } from "../../abort.ts";
import { request } from "../../network.ts";
import { mostBytes } from "./limits.ts";

/** The `data` of an error that stands for a result that was too large. */
export const tooLarge = "stateset-agents: too large";

interface Sent {
  method?: string;
  id?: number | string;
  params?: { requestId?: number | string };
}

/** How long telling a server that a call is cancelled may take. */
const cancelMs = 10_000;

export function boundedFetch(): typeof fetch {
  const running = new Map<number | string, () => void>();
  return async (input, init = {}) => {
    if (init.method !== "POST") return bounded(await request(input, init));
    const sent = JSON.parse(String(init.body)) as Sent;
    const { id } = sent;
    const link = linkSignals(init.signal ?? undefined);
    let timer: NodeJS.Timeout | undefined;
    const done = () => {
      clearTimeout(timer);
      link.unlink();
      if (id !== undefined) running.delete(id);
    };
    if (sent.method === "notifications/cancelled") {
      timer = setTimeout(link.abort, cancelMs);
      running.get(sent.params?.requestId ?? "")?.();
    }
    if (id !== undefined) running.set(id, link.abort);
    try {
      const response = await request(input, { ...init, signal: link.signal });
      return bounded(response, { id, done });
    } catch (error) {
      done();
      throw error;
    }
  };
}

/** A response whose body ends after too many bytes; of a stream of events, too many in one. `call`: the request it answers. */
function bounded(response: Response, call?: { id: number | string | undefined; done: () => void }): Response {
  if (!response.body) {
    call?.done();
    return response;
  }
  const events = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const seen = new EventBytes();
  let bytes = 0;
  /** Says that the call failed, where nobody else would: a stream of events that simply ends says nothing. */
  const end = (into: ReadableStreamDefaultController<Uint8Array>, problem: { message: string; data?: string }) => {
    if (events && call?.id !== undefined && !(seen.resumable && problem.data === undefined)) {
      const error = { jsonrpc: "2.0", id: call.id, error: { code: -32000, ...problem } };
      into.enqueue(new TextEncoder().encode(`\n\ndata: ${JSON.stringify(error)}\n\n`));
    } else if (problem.data !== undefined) {
      into.error(Object.assign(new Error(problem.message), { data: problem.data }));
      return;
    }
    into.close();
  };
  const body = new ReadableStream<Uint8Array>({
    async pull(into) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          call?.done();
          if (events) end(into, { message: "the connection was closed before the answer" });
          else into.close();
          return;
        }
        bytes = events ? seen.add(value) : bytes + value.length;
        if (bytes <= mostBytes) return into.enqueue(value);
        call?.done();
        end(into, { message: `its answer has more than ${mostBytes} bytes`, data: tooLarge });
        await reader.cancel();
      } catch (error) {
        call?.done();
        if (events && call?.id !== undefined) end(into, { message: "the connection broke off before the answer" });
        else into.error(error);
      }
    },
    async cancel(reason) {
      call?.done();
      await reader.cancel(reason);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(body, { status, statusText, headers });
}

/** Follows a stream of events: how long the one is that is being read, and whether the stream can be taken up again where it broke off. */
class EventBytes {
  resumable = false;
  #bytes = 0;
  #line = "";

  add(chunk: Uint8Array): number {
    let start = 0;
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, start)) {
      this.#bytes += at + 1 - start;
      this.#read(chunk.subarray(start, at));
      if (/^\r?$/.test(this.#line)) this.#bytes = 0;
      if (/^id:./.test(this.#line)) this.resumable = true;
      this.#line = "";
      start = at + 1;
    }
    this.#bytes += chunk.length - start;
    this.#read(chunk.subarray(start));
    return this.#bytes;
  }

  /** The beginning of a line is enough to know it. */
  #read(bytes: Uint8Array): void {
    if (this.#line.length < 8) this.#line += Buffer.from(bytes.subarray(0, 8)).toString("latin1");
  }
}
