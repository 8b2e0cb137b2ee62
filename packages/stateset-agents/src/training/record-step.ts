/** Which conversations of a step are written to the run, and what was learnt of their tokens. */
import { toConversationRecord } from "../conversation/record.ts";
import { LearntTokens } from "../learning/learnt-tokens.ts";
import type { Run } from "../run/run.ts";
import { type RecordedConversation, writeTrajectories } from "../run/trajectories.ts";
import type { Collected } from "./collect.ts";
import type { TrainingConfig } from "./config.ts";

export interface StepRecord {
  /** To be told what learning knows of the tokens; undefined when those are not written. */
  learnt: LearntTokens | undefined;
  write(): void;
}

/** Undefined for a step that is not recorded. */
export function openRecord(
  { dir }: Pick<Run, "dir">,
  { trajectories: { every, perStep, tokens }, groupSize }: TrainingConfig,
  step: number,
  collected: Collected,
): StepRecord | undefined {
  if (dir === undefined || every === 0 || (step - 1) % every !== 0) return undefined;
  const chosen = chooseConversations(collected, { groups: perStep, leftOut: perStep * groupSize });
  const learnt = tokens ? new LearntTokens(chosen.conversations.map(({ trajectory }) => trajectory)) : undefined;
  return {
    learnt,
    write() {
      const conversations = chosen.conversations.map(({ trajectory, group, leftOut }): RecordedConversation => {
        const record = toConversationRecord(trajectory, { group, step, ...(leftOut && { leftOut }) });
        return { record, chains: trajectory.chains, learnt: learnt?.of(trajectory) };
      });
      const last = conversations.at(-1);
      if (last && chosen.notWritten) last.record.notWritten = chosen.notWritten;
      writeTrajectories(dir, step, conversations, { tokens });
    },
  };
}

interface Chosen {
  trajectory: Parameters<typeof toConversationRecord>[0];
  group: string;
  leftOut?: "lost" | "dropped" | "refused";
}

/** The first groups that are learnt from, and up to `leftOut` of the conversations that are not. */
function chooseConversations(
  { groups, report, refused }: Collected,
  most: { groups: number; leftOut: number },
): { conversations: Chosen[]; notWritten: { lost: number; dropped: number; refused: number } | undefined } {
  const membersOf = (of: Collected["groups"], leftOut?: Chosen["leftOut"]) =>
    of.flatMap(({ id, trajectories }) =>
      trajectories.map((trajectory): Chosen => ({ trajectory, group: id, ...(leftOut && { leftOut }) })),
    );
  const left = [
    ...report.lost.map(({ group, ...trajectory }): Chosen => ({ trajectory, group, leftOut: "lost" })),
    ...membersOf(report.droppedGroups, "dropped"),
    ...membersOf(refused, "refused"),
  ];
  const count = (why: Chosen["leftOut"]) => left.slice(most.leftOut).filter(({ leftOut }) => leftOut === why).length;
  const notWritten = { lost: count("lost"), dropped: count("dropped"), refused: count("refused") };
  return {
    conversations: [...membersOf(groups.slice(0, most.groups)), ...left.slice(0, most.leftOut)],
    notWritten: left.length > most.leftOut ? notWritten : undefined,
  };
}
