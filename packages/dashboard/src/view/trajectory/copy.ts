/** What of a trajectory goes to the clipboard. */
import type { TrajectoryData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import type { Tokens } from "../../token/tokens.ts";
import type { RecordData } from "./record.ts";
import { testCase } from "./test-case.ts";

export interface Copyable {
  name: string;
  /** What was copied, for whoever wants to know that it was. */
  said: string;
  text(): string;
}

export function copyables(data: TrajectoryData, tokens: Tokens | undefined): Copyable[] {
  const record = data.record as unknown as RecordData;
  return [
    {
      name: "messages",
      said: "The messages are copied, as JSON.",
      text: () => JSON.stringify(record.messages, null, 2),
    },
    ...(tokens ? [{ name: "ids", said: "The ids of the tokens are copied.", text: () => idsOf(tokens) }] : []),
    {
      name: "test case",
      said: "A test of the reward is copied: paste it into a file of vitest.",
      text: () => testCase({ ...data, record }),
    },
  ];
}

/** A list, or a list of each chain's where there are several. */
function idsOf({ ids, chains }: Tokens): string {
  const lists = chains.map(({ from, length }) => [...ids.subarray(from, from + length)]);
  return JSON.stringify(lists.length === 1 ? lists[0] : lists);
}

/** The clipboard is there for pages of this machine and behind TLS; elsewhere a text that is selected does it. */
export async function toClipboard(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
