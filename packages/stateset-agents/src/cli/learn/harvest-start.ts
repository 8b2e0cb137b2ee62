/**
 * `harvest/settings.json`: what a harvest began with. One that was stopped has no run yet whose config.json could say it, and goes on as it
 * began: it samples and learns with these settings.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeJsonAtomic } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import type { ProjectParts, Scene } from "../../project/build-project.ts";
import { modelFacts, type RunConfig } from "../../run/config.ts";
import { pathIn } from "../../run/layout.ts";
import { harvestShape } from "../../supervised/best-of-n.ts";
import { fitShape } from "../../supervised/fit-options.ts";
import type { CliIo } from "../io.ts";
import { commandLine, shown } from "../run/place.ts";
import type { Settings } from "../settings.ts";
import type { LearnFlags } from "./flags.ts";

/** Settings of the harvest and of learning from it, as they were given. */
export type HarvestStart = Pick<RunConfig, "settings" | "model" | "agent" | "environment" | "reward">;

export async function harvestStart(
  { agent, environment, reward }: ProjectParts & Partial<Scene>,
  settings: Settings,
): Promise<HarvestStart> {
  await agent.initialize();
  return {
    settings,
    model: modelFacts(agent.policy.model),
    agent: agent.describe(),
    ...(environment && { environment: environment.describe() }),
    ...(reward && { reward: reward.describe() }),
  };
}

function fileIn(run: string): string {
  return join(pathIn(run, "harvest"), "settings.json");
}

export function writeHarvestStart(run: string, start: HarvestStart): void {
  writeJsonAtomic(fileIn(run), start);
}

/** Undefined where there is none, and where the run that learns from it has begun. */
export function stoppedHarvest(run: string): HarvestStart | undefined {
  const path = fileIn(run);
  if (!existsSync(path) || existsSync(pathIn(run, "config"))) return undefined;
  let start: Partial<HarvestStart> | null = null;
  let reason = "it is not what a harvest begins with";
  let cause: unknown;
  try {
    start = JSON.parse(readFileSync(path, "utf8")) as Partial<HarvestStart> | null;
  } catch (error) {
    [reason, cause] = [messageOf(error), error];
  }
  if (typeof start?.settings === "object" && typeof start.model === "object") return start as HarvestStart;
  throw new StatesetError("CHECKPOINT_INVALID", `${path} cannot be read: ${reason}.`, {
    hint: "How it was sampled is lost, so it cannot go on: start a new run, or learn from what was kept with `npx stateset-agents sft --data <run>`.",
    cause,
  });
}

/** What was sampled cannot be sampled otherwise. `stopped`: it is not all sampled yet, and has no run that could be split off. */
export function refuseOtherHarvest(given: LearnFlags, stopped: boolean): void {
  const fixed = (key: string) => key in harvestShape && (stopped || !(key in fitShape));
  const flags = { n: "--n", keep: "--keep", minReward: "--min-reward", seed: "--seed" } as const;
  const changed = [
    ...Object.entries(flags).flatMap(([key, flag]) =>
      fixed(key) && given[key as keyof typeof flags] !== undefined ? [flag] : [],
    ),
    ...Object.keys(given.set ?? {}).flatMap((path) => (fixed(path.split(".")[0]!) ? [`--set ${path}`] : [])),
    ...(stopped && given.name !== undefined ? ["--name"] : []),
  ];
  if (changed.length === 0) return;
  throw new StatesetError(
    "INVALID_OPTION",
    `${changed.join(" and ")} cannot be given here: what was sampled stays as it is, and goes on as it began.`,
    { hint: `Leave ${changed.length === 1 ? "it" : "them"} out, or start a new run.` },
  );
}

/** A folder in which another harvest waits to go on. */
export function refuseStopped(dir: string, io: CliIo): void {
  if (!existsSync(pathIn(dir, "harvest"))) return;
  throw new StatesetError("INVALID_OPTION", `${shown(dir, io)} holds a harvest that was stopped.`, {
    hint: `Give another --name, or go on with it: ${commandLine(["best-of-n", "--resume", shown(dir, io)])}`,
  });
}
