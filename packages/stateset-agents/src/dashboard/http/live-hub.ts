/**
 * What happens in the runs, told to everybody who listens. The folders are looked at by one, while anybody listens: ten listeners cost what one
 * does. Each event has an id, and the last ones are kept, so that whoever lost the connection gets what he missed.
 */
import { randomBytes } from "node:crypto";
import { type EventStream, eventText } from "../../server/event-stream.ts";
import type { LiveEvents } from "../api/index.ts";
import type { Change } from "../read/reader.ts";

export interface LiveHub {
  /** Remembers how things stand, once: what happens from here on is told to whoever listens later. */
  begin(): Promise<void>;
  /** Until the stream ends. `lastId`: the last event that it got, before. */
  listen(stream: EventStream, lastId: string | undefined): void;
  close(): void;
}

export interface LiveHubOptions {
  everyMs?: number;
  /** Events that are kept, and how large they may be together. */
  kept?: number;
  keptBytes?: number;
  /** Who comes without an id read the data moments ago: so much of what happened is told again, since it may have come in between. */
  recentMs?: number;
  now?: () => number;
  onFailure?: (error: unknown) => void;
}

interface Event {
  number: number;
  at: number;
  name: keyof LiveEvents;
  data: string;
}

/** How long a browser that lost the stream waits before it asks again. */
const retryMs = 1000;

export function createLiveHub(changes: () => Promise<Change[]>, options: LiveHubOptions = {}): LiveHub {
  const { everyMs = 500, kept = 2000, keptBytes = 32 << 20, recentMs = 10_000, now = Date.now } = options;
  /** Tells this server's events from those of the one before. */
  const epoch = randomBytes(6).toString("hex");
  const idOf = (number: number) => `${epoch}-${number}`;
  const events: Event[] = [];
  const listeners = new Set<EventStream>();
  let bytes = 0;
  let last = 0;
  let begun: Promise<void> | undefined;
  let looking = false;
  let closed = false;
  let failed = false;

  const textOf = ({ number, name, data }: Event) => eventText(data, { event: name, id: idOf(number) });

  const keep = (event: Event) => {
    events.push(event);
    bytes += event.data.length;
    while (events.length > kept || (bytes > keptBytes && events.length > 1)) bytes -= events.shift()!.data.length;
  };

  const look = async () => {
    try {
      const news = (await changes()).map(
        ({ kind, event }): Event => ({ number: ++last, at: now(), name: kind, data: JSON.stringify(event) }),
      );
      for (const event of news) keep(event);
      // Written once, however many listen, and one piece for each of them: they may share the processors with what they listen to.
      const piece = Buffer.from(news.map(textOf).join(""), "utf8");
      for (const stream of listeners) stream.sendBytes(piece);
      failed = false;
    } catch (error) {
      // Said once, and tried again.
      if (!failed) options.onFailure?.(error);
      failed = true;
    }
  };

  const lookOn = async () => {
    if (looking) return;
    looking = true;
    await hub.begin();
    while (listeners.size > 0 && !closed) {
      await look();
      await new Promise((settle) => setTimeout(settle, everyMs).unref());
    }
    looking = false;
  };

  /** Undefined where some of what was missed is gone. */
  const missedSince = (lastId: string): Event[] | undefined => {
    const [, own, number] = /^([0-9a-f]+)-(\d{1,15})$/.exec(lastId) ?? [];
    const seen = Number(number);
    if (own !== epoch || seen > last) return undefined;
    const first = events[0]?.number ?? last + 1;
    return seen + 1 < first ? undefined : events.filter((event) => event.number > seen);
  };

  const hub: LiveHub = {
    begin() {
      begun ??= look();
      return begun;
    },
    listen(stream, lastId) {
      const missed = lastId === undefined ? events.filter(({ at }) => now() - at <= recentMs) : missedSince(lastId);
      if (missed) stream.sendBytes(Buffer.from(missed.map(textOf).join(""), "utf8"));
      else {
        const reset: LiveEvents["reset"] = { reason: "Some of what happened meanwhile is not known any more." };
        stream.send(JSON.stringify(reset), { event: "reset", id: idOf(last) });
      }
      stream.mark(idOf(last), retryMs);
      listeners.add(stream);
      void stream.done.then(() => listeners.delete(stream));
      void lookOn();
    },
    close() {
      closed = true;
      for (const stream of listeners) stream.end();
    },
  };
  return hub;
}
