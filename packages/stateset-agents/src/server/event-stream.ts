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
  send(data: string, { event, id }: { event?: string; id?: string } = {}): void {
    this.#options.onEvent?.(data);
    const name = event === undefined ? "" : `event: ${event}\n`;
    this.#write(`${name}${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`);
  }

  /** No event: where a reader that loses the stream is to go on, and after how long it may ask. */
  mark(id: string, retryMs: number): void {
    this.#write(`id: ${id}\nretry: ${retryMs}\n\n`);
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

  #write(text: string): void {
    if (!this.#open) return;
    this.#controller.enqueue(Buffer.from(text, "utf8"));
    this.#quietSince = performance.now();
    if (this.#controller.desiredSize! <= 0) this.#stalledSince ??= this.#quietSince;
  }

  #look(): void {
    const now = performance.now();
    if (this.#stalledSince !== undefined && now - this.#stalledSince >= this.#options.stalledMs) {
      const { stalledMs } = this.#options;
      this.#controller.error(new HttpError(408, `Nothing was read for ${stalledMs / 1000} s.`, { code: "stalled" }));
      this.#left();
    } else if (now - this.#quietSince >= this.#options.keepAliveMs) this.#write(": still here\n\n");
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
