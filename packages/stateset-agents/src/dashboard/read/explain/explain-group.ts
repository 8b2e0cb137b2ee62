import type { GroupData } from "../../api/index.ts";
import type { Member } from "../group/member.ts";
import type { JsonObject } from "../json-file.ts";

export function explainGroup(_config: JsonObject | undefined, _members: readonly Member[]): GroupData["why"] {
  return null;
}
