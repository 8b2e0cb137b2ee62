/**
 * The queue in front of the engine. The engine batches whatever it is given and takes it in the order it came; so it is given little
 * more than it can work on, and who comes next is decided here (fair-queue.ts), as late as can be.
 */
import { onAbort } from "../../abort.ts";
import { StatesetError } from "../../error.ts";
import { HttpError } from "../http-error.ts";
import { Departures } from "./departures.ts";
import { FairQueue, type Waiting } from "./fair-queue.ts";
import { priorities, type Ticket } from "./ticket.ts";

export { type Priority, priorities, type Ticket } from "./ticket.ts";

export interface Admitted {
  readonly queuedMs: number;
  /** Gives its slots back, once, however often it is called. Owed also where the client has left: then the engine is done with it. */
  leave(): void;
}

export interface Admission {
  /**
   * Resolves when the request may go to the engine. Rejects with an HttpError where it never will: 429 `queue_full`, 408
   * `deadline_exceeded`, or what it was closed with; and with ABORTED where its signal fires first.
   */
  enter(ticket: Ticket): Promise<Admitted>;
  /** Requests. */
  readonly waiting: number;
  /** Slots that were handed over and not given back. */
  readonly running: number;
  /** Turns all away who wait and who come; those let in are not concerned. */
  close(reason: HttpError): void;
}

export interface AdmissionOptions {
  /** Of the engine. */
  slots: number;
  /** Requests that may wait. */
  maxWaiting: number;
  /**
   * Whether several callers share it. Then no key gets all the slots: a sixteenth of them stays free of any one, so that another finds a
   * place at the next step, not behind whatever the first one is still waiting for.
   */
  shared?: boolean;
  /** In ms; by default performance.now(). */
  now?: () => number;
}

/** What the engine is handed, in slots of it: some more than there are, so that one which falls free is filled at the next step. */
const handedOver = 1.25;

/** Of the slots, what no single key gets where there are others. */
const keptFree = 1 / 16;

/** The longest that a timer of Node takes, in ms. */
const longestTimer = 2 ** 31 - 1;

interface Entry extends Waiting {
  admit(admitted: Admitted): void;
  refuse(error: Error): void;
  /** Of its deadline and its signal. */
  letGo(): void;
}

export function createAdmission(options: AdmissionOptions): Admission {
  const { slots, maxWaiting, shared = false, now = () => performance.now() } = options;
  const limit = Math.ceil(slots * handedOver);
  const keyLimit = shared ? slots - Math.floor(slots * keptFree) : Number.POSITIVE_INFINITY;
  const runningOf = new Map<string, number>();
  /** One that takes more than its key may have comes when its key has nothing else. */
  const mayEnter = ({ ticket }: Entry) => {
    const own = runningOf.get(ticket.key) ?? 0;
    return own === 0 || own + ticket.slots <= keyLimit;
  };
  const queue = new FairQueue<Entry>();
  const departures = new Departures();
  let running = 0;
  let closed: HttpError | undefined;

  function enter(ticket: Ticket): Promise<Admitted> {
    return new Promise((admit, refuse) => {
      checkTicket(ticket);
      const since = now();
      const entry: Entry = { ticket, since, admit, refuse, letGo: () => {} };
      if (closed) return refuse(closed);
      if (ticket.signal?.aborted) return refuse(aborted(ticket));
      if (isLate(ticket, since)) return refuse(tooLate());
      if (running === 0 && queue.size === 0) departures.forget();
      queue.push(entry);
      letIn(since);
      if (queue.size > maxWaiting && queue.has(entry)) leaveLine(givesWay(entry), queueFull(since));
      if (queue.has(entry)) watch(entry);
    });
  }

  /**
   * Whoever is next, while there is room. Who takes more than there ever is comes in alone; and nobody overtakes who is next, or many
   * small ones would keep out a large one. Where there is no room for anybody it is not asked who is next: turns are counted among those
   * who are there when there is some.
   */
  function letIn(at: number): void {
    while (running < limit) {
      const next = queue.next(at, mayEnter);
      if (!next) return;
      const { ticket, since, admit } = next;
      // Timers come late, and of several who share a signal one is told first.
      const gone = ticket.signal?.aborted ? aborted(ticket) : isLate(ticket, at) ? tooLate() : undefined;
      if (gone) {
        turnAway(next, gone);
        continue;
      }
      if (running > 0 && running + ticket.slots > limit) return;
      queue.take(next);
      next.letGo();
      count(ticket.key, ticket.slots);
      admit({ queuedMs: at - since, leave: leaveOnce(ticket) });
    }
  }

  function count(key: string, taken: number): void {
    running += taken;
    const own = (runningOf.get(key) ?? 0) + taken;
    if (own > 0) runningOf.set(key, own);
    else runningOf.delete(key);
  }

  function leaveOnce({ key, slots: taken }: Ticket): () => void {
    let here = true;
    return () => {
      if (!here) return;
      here = false;
      count(key, -taken);
      const at = now();
      departures.left(at);
      letIn(at);
    };
  }

  /**
   * Who has to go when there is one too many. A key that has most of the queue cannot keep others out of it: where the newcomer's has
   * fewer by two or more, so that the two do not push each other out in turn, it is that key's newest of its lowest class. Else a
   * newcomer takes the place of one of its own key that is of a lower class. Else it is the newcomer.
   */
  function givesWay(newcomer: Entry): Entry {
    const { key, priority } = newcomer.ticket;
    const own = queue.byKey.get(key)!;
    let [most, flooding] = [own, key];
    for (const [other, count] of queue.byKey) if (count > most) [most, flooding] = [count, other];
    // The newcomer is counted among its own.
    if (most > own) return queue.newest(flooding)!;
    const lowest = queue.newest(key)!;
    return priorities.indexOf(lowest.ticket.priority) > priorities.indexOf(priority) ? lowest : newcomer;
  }

  function turnAway(entry: Entry, error: Error): void {
    queue.remove(entry);
    entry.letGo();
    entry.refuse(error);
  }

  /** Who goes may have been all that kept the next one out. */
  function leaveLine(entry: Entry, error: Error): void {
    turnAway(entry, error);
    letIn(now());
  }

  function watch(entry: Entry): void {
    const { ticket } = entry;
    let timer: NodeJS.Timeout | undefined;
    const wait = () => {
      const left = ticket.deadline! - now();
      if (left <= 0) return leaveLine(entry, tooLate());
      timer = setTimeout(wait, Math.min(Math.ceil(left), longestTimer)).unref();
    };
    const unlink = onAbort(ticket.signal, () => leaveLine(entry, aborted(ticket)));
    entry.letGo = () => {
      clearTimeout(timer);
      unlink();
    };
    if (ticket.deadline !== undefined) wait();
  }

  function queueFull(at: number): HttpError {
    const ms = departures.retryMs(at);
    return new HttpError(429, `The queue is full: ${maxWaiting} requests wait. Try again in ${ms} ms.`, {
      code: "queue_full",
      headers: { "retry-after-ms": String(ms), "retry-after": String(Math.ceil(ms / 1000)) },
    });
  }

  return {
    enter,
    get waiting() {
      return queue.size;
    },
    get running() {
      return running;
    },
    close(reason) {
      closed = reason;
      for (const entry of [...queue]) turnAway(entry, reason);
    },
  };
}

/** What is no number would keep everybody waiting. */
function checkTicket({ tokens, slots }: Ticket): void {
  if (Number.isSafeInteger(tokens) && tokens >= 0 && Number.isSafeInteger(slots) && slots >= 1) return;
  throw new RangeError(`A ticket has ${tokens} tokens and ${slots} slots.`);
}

function isLate({ deadline }: Ticket, at: number): boolean {
  return deadline !== undefined && deadline <= at;
}

export function tooLate(): HttpError {
  return new HttpError(408, "The request's deadline passed while it waited.", {
    code: "deadline_exceeded",
    headers: { "x-should-retry": "false" },
  });
}

function aborted({ signal }: Ticket): StatesetError {
  return new StatesetError("ABORTED", "Stopped while waiting for the engine.", { cause: signal?.reason });
}
