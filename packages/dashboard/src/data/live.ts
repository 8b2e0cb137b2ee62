/** What happens while somebody looks: one stream of events for the whole page, which the browser opens again by itself. */
import { signal } from "@preact/signals";
import type { LiveEvents } from "../../../stateset-agents/src/dashboard/api/index.ts";
import { apiUrl } from "./ask.ts";

/** "waiting": the server does not answer, and is asked again every second. */
export const connection = signal<"connecting" | "connected" | "waiting">("connecting");

type Listener<K extends keyof LiveEvents> = (event: LiveEvents[K]) => void;
const listeners: { [K in keyof LiveEvents]: Set<Listener<K>> } = {
  runs: new Set(),
  steps: new Set(),
  conversations: new Set(),
  reset: new Set(),
};
let source: EventSource | undefined;
/** Of the last event that came: a stream that is opened anew goes on from there. */
let lastId: string | undefined;

/** Returns what ends it: for `useEffect(() => onLive(…), [])`. Whoever shows data listens to "reset" too, and asks for it anew. */
export function onLive<K extends keyof LiveEvents>(kind: K, listener: Listener<K>): () => void {
  listeners[kind].add(listener);
  open();
  return () => void listeners[kind].delete(listener);
}

function open(): void {
  if (source || document.hidden) return;
  source = new EventSource(apiUrl("live", { after: lastId }));
  source.addEventListener("open", () => {
    connection.value = "connected";
  });
  for (const kind of Object.keys(listeners) as (keyof LiveEvents)[]) {
    source.addEventListener(kind, (event: MessageEvent<string>) => {
      lastId = event.lastEventId;
      const data = JSON.parse(event.data) as never;
      for (const listener of [...listeners[kind]]) (listener as Listener<never>)(data);
    });
  }
  source.addEventListener("error", () => {
    connection.value = "waiting";
    // The browser gives up where the answer was an error, as behind a proxy that lost its server.
    if (source?.readyState !== EventSource.CLOSED) return;
    source = undefined;
    setTimeout(goOn, 1000);
  });
}

function goOn(): void {
  open();
  // Where no event came before, what came meanwhile is not known to the stream.
  if (lastId !== undefined) return;
  for (const listener of [...listeners.reset]) listener({ reason: "The connection was lost." });
}

// A browser has six connections to one server, for all its pages: one that nobody sees gives its own back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    source?.close();
    source = undefined;
  } else if (!source && Object.values(listeners).some(({ size }) => size > 0)) goOn();
});
