/** Work that is done one piece at a time for each key, so that a key that asks for much of it delays the others by one piece alone. */
import { HttpError } from "./http-error.ts";

/** Pieces that may wait for each key. */
const mostWaiting = 16;

export interface KeyTurns<T> {
  /**
   * Runs it once the key's earlier pieces are done; refuses with 429 where too many wait. Of one name there is one piece: a key that asks
   * for it again meanwhile gets what comes of the first.
   */
  run(key: string, name: string, task: () => Promise<T>): Promise<T>;
}

export function createKeyTurns<T>(what: string): KeyTurns<T> {
  const turns = new Map<string, { last: Promise<unknown>; waiting: Map<string, Promise<T>> }>();
  return {
    async run(key, name, task) {
      const turn = turns.get(key) ?? { last: Promise.resolve(), waiting: new Map<string, Promise<T>>() };
      const { waiting } = turn;
      const same = waiting.get(name);
      if (same) return same;
      if (waiting.size >= mostWaiting) {
        const headers = { "retry-after-ms": "1000", "retry-after": "1" };
        throw new HttpError(429, `Too many ${what} of this key wait.`, { code: "queue_full", headers });
      }
      turns.set(key, turn);
      const own = turn.last.then(task);
      waiting.set(name, own);
      turn.last = own.catch(() => {});
      try {
        return await own;
      } finally {
        waiting.delete(name);
        if (waiting.size === 0) turns.delete(key);
      }
    },
  };
}
