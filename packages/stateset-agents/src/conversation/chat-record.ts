import type { ChatRecord } from "./jsonl.ts";
import type { Message } from "./message.ts";
import type { Trajectory } from "./trajectory.ts";

/** A trajectory as a line of a chat file: messages in the OpenAI format, with its reward and scenario beside them. */
export function toChatRecord(trajectory: Trajectory): ChatRecord {
  const { id, scenarioId, turns, reward, ended, stub } = trajectory;
  return {
    id,
    scenarioId,
    messages: turns.map(({ reward: _, metadata: __, sampled: ___, ...message }): Message => message),
    reward: reward.score,
    breakdown: reward.breakdown,
    ended,
    ...(stub && { stub }),
  };
}
