import type { ConversationRecord } from "../../../conversation/record.ts";
import type { ConversationTokens } from "../tokens/token-files.ts";
import type { RowFacts } from "../trajectories/row-facts.ts";

/** A conversation of a group, with its tokens where these were kept. */
export interface Member {
  line: number;
  row: RowFacts;
  record: ConversationRecord;
  tokens: ConversationTokens | undefined;
}
