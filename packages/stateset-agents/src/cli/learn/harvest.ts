/**
 * What best-of-n samples before it learns, kept beside the run as it grows: `harvest/trajectories/` holds the conversations that were kept,
 * `harvest/rounds.jsonl` the numbers of each round. A harvest that was stopped goes on after its last round.
 */
import { appendFileSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Agent } from "../../agent/agent.ts";
import { toConversationRecord } from "../../conversation/record.ts";
import type { TokenChain } from "../../conversation/trajectory.ts";
import { counted } from "../../counted.ts";
import { hasCode, StatesetError } from "../../error.ts";
import type { Scene } from "../../project/build-project.ts";
import { seedOf } from "../../random.ts";
import { pathIn } from "../../run/layout.ts";
import { readJsonLines } from "../../run/log.ts";
import { readTrajectories, trajectorySteps, writeTrajectories } from "../../run/trajectories.ts";
import { type HarvestSettings, harvestBestOfN } from "../../supervised/best-of-n.ts";

export function harvestFolder(run: string): string {
  return pathIn(run, "harvest");
}

/** One call of harvestBestOfN(). */
export interface HarvestRound {
  /** Scenarios played so far, of all. */
  scenarios: number;
  of: number;
  sampled: number;
  kept: number;
  /** Mean reward of what this round sampled, and of what it kept; null when it kept nothing. */
  sampledReward: number;
  keptReward: number | null;
}

export interface HarvestJob {
  agent: Agent;
  scene: Scene;
  settings: HarvestSettings;
  /** The run's folder. */
  dir: string;
  signal: AbortSignal;
  onRound(round: HarvestRound): void;
}

/** Plays what is left to play. False when the signal stopped it. */
export async function harvest({ agent, scene, settings, dir, signal, onRound }: HarvestJob): Promise<boolean> {
  const folder = harvestFolder(dir);
  mkdirSync(folder, { recursive: true });
  const rounds = join(folder, "rounds.jsonl");
  const { environment, reward } = scene;
  const all = environment.scenarios;
  // As many conversations as are sampled together anyway.
  const size = Math.max(1, Math.floor(64 / (settings.n ?? 8)));
  for (let done = readJsonLines<HarvestRound>(rounds).at(-1)?.scenarios ?? 0; done < all.length; ) {
    const scenarios = all.slice(done, done + size);
    const seed = seedOf(settings.seed ?? 0, "round", done);
    try {
      const { kept, groups, sampledReward, keptReward } = await harvestBestOfN({
        ...settings,
        ...{ agent, environment, reward, scenarios, seed, signal },
      });
      done += scenarios.length;
      if (kept.length > 0) {
        const recorded = kept.map((one) => ({ record: toConversationRecord(one, { step: done }), chains: one.chains }));
        writeTrajectories(folder, done, recorded, { tokens: true });
      }
      const round: HarvestRound = {
        scenarios: done,
        of: all.length,
        sampled: groups.reduce((sum, { trajectories }) => sum + trajectories.length, 0),
        kept: kept.length,
        sampledReward,
        keptReward: kept.length === 0 ? null : keptReward,
      };
      appendFileSync(rounds, `${JSON.stringify(round)}\n`);
      onRound(round);
    } catch (error) {
      if (signal.aborted && hasCode(error, "ABORTED")) return false;
      throw error;
    }
  }
  return true;
}

/** The tokens that were sampled, never made anew. */
export function harvested(dir: string): TokenChain[] {
  const folder = harvestFolder(dir);
  const records = trajectorySteps(folder).flatMap((step) => readTrajectories(folder, step));
  const chains = records.flatMap((record) =>
    record.chains.map(({ columns }) => {
      const { tokens, learn, logprobs, turn } = columns!;
      return { tokens, learn, logprobs, turn } as TokenChain;
    }),
  );
  if (chains.length > 0) return chains;
  throw new StatesetError(
    "INVALID_DATA",
    "best-of-n kept no conversation: none was better than the others of its scenario.",
    {
      hint: "Sample more of each (--n), or look at the reward: it may not tell them apart.",
    },
  );
}

/** How far a harvest came that was stopped. */
export function stoppedText(dir: string): string {
  const rounds = readJsonLines<HarvestRound>(join(harvestFolder(dir), "rounds.jsonl"));
  const { scenarios, of } = rounds.at(-1) ?? {};
  if (scenarios === undefined) return "Stopped before anything was sampled.";
  const { sampled, kept } = harvestNumbers(dir);
  return `Stopped after sampling ${scenarios} of ${of} scenarios (${kept} of ${counted(sampled, "conversation")} kept) and saved.`;
}

/** Takes back a harvest that failed before its first round: there is nothing to go on with. */
export function dropUnsampled(dir: string): void {
  if (existsSync(join(harvestFolder(dir), "rounds.jsonl"))) return;
  rmSync(harvestFolder(dir), { recursive: true, force: true });
  rmSync(pathIn(dir, "cli"), { force: true });
}

/** Of a harvest as far as it came. */
export function harvestNumbers(dir: string): {
  sampled: number;
  kept: number;
  sampledReward: number;
  keptReward: number;
} {
  const rounds = readJsonLines<HarvestRound>(join(harvestFolder(dir), "rounds.jsonl"));
  const sum = (of: (round: HarvestRound) => number) => rounds.reduce((total, round) => total + of(round), 0);
  const [sampled, kept] = [sum((round) => round.sampled), sum((round) => round.kept)];
  return {
    sampled,
    kept,
    sampledReward: sum((round) => round.sampled * round.sampledReward) / sampled,
    keptReward: sum((round) => round.kept * (round.keptReward ?? 0)) / kept,
  };
}
