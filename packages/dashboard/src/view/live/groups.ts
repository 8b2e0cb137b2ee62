/** Conversations of one scenario that are compared with each other, and what can be said of them so far. */
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { spreadOf } from "../parts/spread.ts";

export interface Statistics {
  count: number;
  /** Of those whose reward is known. */
  rewarded: number;
  failed: number;
  /** Neither rewarded nor failed: their group is not complete. */
  waiting: number;
  /** Null where none has a reward. */
  mean: number | null;
  spread: number | null;
  min: number | null;
  max: number | null;
}

export interface LiveGroup extends Statistics {
  name: string;
  run: string;
  step: number;
  group: string;
  scenario: string | null;
  /** The newest first. */
  members: LiveConversation[];
}

export function statisticsOf(conversations: readonly LiveConversation[]): Statistics {
  const rewards = conversations.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const some = rewards.length > 0;
  return {
    count: conversations.length,
    rewarded: rewards.length,
    failed: conversations.filter(({ failure }) => failure !== null).length,
    waiting: conversations.filter(({ reward, failure }) => reward === null && failure === null).length,
    mean: some ? mean : null,
    spread: spreadOf(rewards),
    min: some ? Math.min(...rewards) : null,
    max: some ? Math.max(...rewards) : null,
  };
}

/** The group whose conversation ended last comes first. */
export function groupsOf(conversations: readonly LiveConversation[]): LiveGroup[] {
  const groups = new Map<string, LiveConversation[]>();
  for (const one of newestFirst(conversations)) {
    const name = JSON.stringify([one.run, one.step, one.group]);
    const members = groups.get(name);
    if (members) members.push(one);
    else groups.set(name, [one]);
  }
  return [...groups].map(([name, members]) => {
    const { run, step, group, scenario } = members[0]!;
    return { name, run, step, group, scenario, members, ...statisticsOf(members) };
  });
}

/** They come in the order they ended, which counts within a run though its clock may have jumped; between runs the clock counts. */
export function newestFirst(conversations: readonly LiveConversation[]): LiveConversation[] {
  const latest = new Map<string, number>();
  return conversations
    .map((one, place) => {
      const at = Math.max(one.at, latest.get(one.run) ?? Number.NEGATIVE_INFINITY);
      latest.set(one.run, at);
      return { one, at, place };
    })
    .sort((a, b) => b.at - a.at || b.place - a.place)
    .map(({ one }) => one);
}

export interface Wanted {
  run?: string | undefined;
  scenario?: string | undefined;
  failedOnly: boolean;
  /** Otherwise those of the step that each run is in. */
  allSteps: boolean;
}

export function chosen(conversations: readonly LiveConversation[], wanted: Wanted): LiveConversation[] {
  const now = stepsNow(conversations);
  return conversations.filter(
    ({ run, step, scenario, failure }) =>
      (wanted.run === undefined || run === wanted.run) &&
      (wanted.scenario === undefined || (scenario ?? "") === wanted.scenario) &&
      (!wanted.failedOnly || failure !== null) &&
      (wanted.allSteps || step === now.get(run)),
  );
}

/** The step of each run that its last conversation came from. */
export function stepsNow(conversations: readonly LiveConversation[]): Map<string, number> {
  return new Map(conversations.map(({ run, step }) => [run, step]));
}
