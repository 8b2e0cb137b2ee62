/** Server-sent events to a client that may read slowly, not at all, or leave. Sampling never waits for it. */
import { HttpError } from "./http-error.ts";

export interface EventStreamOptions {
  /** After so long without an event a comment is sent, so that nobody in between takes the connection for dead. */
  keepAliveMs: number;
  /** A reader that takes nothing for so long is let go. */
  stalledMs: number;
  /** The client has left, or was let go: whatever it was to be told is not needed any more. */
  onLeft: () => void;
  /** Told of every event, whether or not anybody reads it. */
  onEvent?: (data: string) => void;
}

export interface EventNames {
  event?: string;
  id?: string;
}

/** One event as it is written: its data is one line. */
export function eventText(data: string, { event, id }: EventNames = {}): string {
  return `${event === undefined ? "" : `event: ${event}\n`}${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`;
}

/** What may lie unread before a reader counts as one that does not read. */
const unreadBytes = 1 << 16;

export class EventStream {
  readonly body: ReadableStream<Uint8Array>;
  /** When the last byte was handed over, or the client left. */
  readonly done: Promise<"sent" | "left">;
  readonly #options: EventStreamOptions;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #settle!: (how: "sent" | "left") => void;
  #open = true;
  #stalledSince: number | undefined;
  #quietSince = performance.now();
  readonly #timer: NodeJS.Timeout;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.done = new Promise((settle) => {
      this.#settle = settle;
    });
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => {
          this.#stalledSince = undefined;
        },
        cancel: () => this.#left(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: unreadBytes }),
    );
    this.#timer = setInterval(() => this.#look(), Math.min(options.keepAliveMs, options.stalledMs, 1000));
    this.#timer.unref();
  }

  /** One event: JSON text, or [DONE]. */
  send(data: string, names: EventNames = {}): void {
    this.#options.onEvent?.(data);
    this.#write(Buffer.from(eventText(data, names), "utf8"));
  }

  /** Events that are told to many, as bytes made once for all of them: nobody may change these. */
  sendBytes(bytes: Uint8Array): void {
    this.#write(bytes);
  }

  /** No event: where a reader that loses the stream is to go on, and after how long it may ask. */
  mark(id: string, retryMs: number): void {
    this.#write(Buffer.from(`id: ${id}\nretry: ${retryMs}\n\n`, "utf8"));
  }

  /** The failure of a reply that has begun: its status is out already, so it is an event. */
  fail(error: HttpError): void {
    this.send(JSON.stringify(error.toBody()));
    this.end();
  }

  end(): void {
    if (!this.#open) return;
    this.#close();
    this.#controller.close();
    this.#settle("sent");
  }

  #write(bytes: Uint8Array): void {
    if (!this.#open || bytes.length === 0) return;
    this.#controller.enqueue(bytes);
    this.#quietSince = performance.now();
    if (this.#controller.desiredSize! <= 0) this.#stalledSince ??= this.#quietSince;
  }

  #look(): void {
    const now = performance.now();
    if (this.#stalledSince !== undefined && now - this.#stalledSince >= this.#options.stalledMs) {
      const { stalledMs } = this.#options;
      this.#controller.error(new HttpError(408, `Nothing was read for ${stalledMs / 1000} s.`, { code: "stalled" }));
      this.#left();
    } else if (now - this.#quietSince >= this.#options.keepAliveMs) this.#write(Buffer.from(": still here\n\n"));
  }

  #left(): void {
    if (!this.#open) return;
    this.#close();
    this.#options.onLeft();
    this.#settle("left");
  }

  #close(): void {
    this.#open = false;
    clearInterval(this.#timer);
  }
}
