import { messageOf } from "../../error.ts";

/** What is known of a request once it was answered: ids, sizes and timings, never what was said. */
export interface Served {
  requestId: string;
  /** The pattern, as in "POST /v1/chat/completions". */
  route: string;
  /** As the client saw it: a stream that failed after its beginning has 200, and an error code. */
  status: number;
  errorCode?: string;
  /** By the server's own doing: what is answered with 5xx, where no status is out yet. */
  failed: boolean;
  /** Only the name of a model that is served: what else a client asks for is its own text. */
  model?: string;
  keyId?: string;
  project?: string;
  streamed: boolean;
  promptTokens: number;
  cachedTokens: number;
  sampledTokens: number;
  queuedMs?: number;
  firstTokenMs?: number;
  interTokenMs?: readonly number[];
  /** Why each of its replies ended. */
  finishReasons?: readonly string[];
  durationMs: number;
  /** The client left before the reply was whole. */
  aborted: boolean;
  requestBytes: number;
  version?: string;
  /** Whether the conversation went on from the tokens that were sampled before. */
  chain?: "continued" | "started";
}

/** What was said, for those who want it in their log. */
export interface ServedContent {
  request?: unknown;
  response?: unknown;
}

export interface Observer {
  /** The content is there only where the server was told to keep it. */
  served(one: Served, content?: ServedContent): void;
}

/** All of them as one. Whoever looks on must not hurt the request: an observer that fails is said once, and asked again. */
export function observeAll(
  observers: readonly Observer[],
  warn: (message: string) => void = (message) => console.warn(message),
): Observer {
  const told = new Set<Observer>();
  const failed = (observer: Observer, error: unknown) => {
    if (told.has(observer)) return;
    told.add(observer);
    warn(`An observer of the server fails: ${messageOf(error)}.`);
  };
  return {
    served(one, content) {
      for (const observer of observers) {
        try {
          // One that is an async function may fail later, which nobody else would catch.
          const result: unknown = observer.served(one, content);
          if (result instanceof Promise) result.catch((error: unknown) => failed(observer, error));
        } catch (error) {
          failed(observer, error);
        }
      }
    },
  };
}
