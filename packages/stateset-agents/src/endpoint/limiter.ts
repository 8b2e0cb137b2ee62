/** Runs at most `slots` tasks at once, the rest in the order they came; these wait through `untimed`. */
export function createLimiter(
  slots: number,
): <T>(task: () => Promise<T>, untimed?: <T>(wait: () => Promise<T>) => Promise<T>) => Promise<T> {
  let free = slots;
  const waiting: (() => void)[] = [];
  return async (task, untimed = (wait) => wait()) => {
    if (free > 0) free--;
    else await untimed(() => new Promise<void>((go) => waiting.push(go)));
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}
