/** Work that is done one piece at a time for each key, so that a key that asks for much of it delays the others by one piece alone. */
import { HttpError } from "./http-error.ts";

/** Pieces that may wait for each key. */
const mostWaiting = 16;

export interface KeyTurns {
  /** Runs it once the key's earlier pieces are done; refuses with 429 where too many wait. */
  run<T>(key: string, task: () => Promise<T>): Promise<T>;
}

export function createKeyTurns(what: string): KeyTurns {
  const turns = new Map<string, { last: Promise<unknown>; waiting: number }>();
  return {
    async run(key, task) {
      const turn = turns.get(key) ?? { last: Promise.resolve(), waiting: 0 };
      if (turn.waiting >= mostWaiting) {
        const headers = { "retry-after-ms": "1000" };
        throw new HttpError(429, `Too many ${what} of this key wait.`, { code: "queue_full", headers });
      }
      turns.set(key, turn);
      turn.waiting++;
      const own = turn.last.then(task);
      turn.last = own.catch(() => {});
      try {
        return await own;
      } finally {
        if (--turn.waiting === 0) turns.delete(key);
      }
    },
  };
}
