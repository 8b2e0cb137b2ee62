/**
 * GET /ui/api/live: server-sent events. `event:` is the key here, `data:` the JSON of its value, `id:` counts them; a reader that comes back with
 * Last-Event-ID gets what it missed, or `reset` where that is gone (or the server is another one): it then asks for its data anew.
 */
import type { LiveConversation } from "./conversations.ts";
import type { RunRow } from "./runs.ts";

export interface LiveEvents {
  /** Rows that are new or changed, and keys of runs that are gone. */
  runs: { rows: RunRow[]; gone: string[] };
  /** A run has more steps. `cut`: it was taken back to `step` by a resume, and what was shown after it is no more. */
  steps: { run: string; step: number; cut: boolean };
  /** Conversations that ended, or were rewarded. */
  conversations: { run: string; conversations: LiveConversation[] };
  reset: { reason: string };
}
