import type { LiveConversation } from "../../../stateset-agents/src/dashboard/api/index.ts";

/** One that ended and was not rewarded yet, as the stream of events tells it. */
export function conversation(seq: number, over: Partial<LiveConversation> = {}): LiveConversation {
  return {
    run: "demo",
    seq,
    step: 1,
    at: 1000 + seq,
    id: `c${seq}`,
    scenario: "late",
    group: "g",
    ended: "done",
    failure: null,
    reward: null,
    breakdown: {},
    messages: [],
    ...over,
  };
}
