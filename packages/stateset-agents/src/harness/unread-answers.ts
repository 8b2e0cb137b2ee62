/** Answers that are on their way to the agents of a harness. Who does not read holds one for as long as it likes, unless it is taken away. */
import type { Server, ServerResponse } from "node:http";
import { withDeadline } from "../abort.ts";

export interface UnreadAnswers {
  /** Waits until those below a path have been sent; what has not in so long is cut off. */
  end(path: string, graceMs: number): Promise<void>;
}

export function watchAnswers(node: Server): UnreadAnswers {
  const open = new Map<ServerResponse, { path: string; closed: Promise<void> }>();
  node.on("request", ({ url = "" }, response) => {
    const closed = new Promise<void>((settle) => {
      response.once("close", () => {
        open.delete(response);
        settle();
      });
    });
    open.set(response, { path: url, closed });
  });
  return {
    async end(path, graceMs) {
      const own = [...open].filter(([, one]) => one.path.startsWith(path));
      if (own.length === 0) return;
      const all = () => Promise.all(own.map(([, { closed }]) => closed));
      await withDeadline(all, { timeoutMs: graceMs }).catch(async () => {
        for (const [response] of own) response.destroy();
        await all();
      });
    },
  };
}
