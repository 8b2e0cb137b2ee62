/** The conversations of one step: sampled, rewarded, and topped up where the algorithm drops groups. */
import type { Algorithm } from "../algorithm/algorithm.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Scenario } from "../environment/scenario.ts";
import { sequencesOf } from "../learning/sequence.ts";
import { seedOf } from "../random.ts";
import { emptyReport, type RolloutReport } from "../rollout/report.ts";
import { type Rollout, sampleGroups } from "../rollout/rollout.ts";
import type { TrainingConfig } from "./config.ts";
import type { TrainingControls } from "./controls.ts";
import type { Recall } from "./recall.ts";
import type { ScenarioOrder } from "./scenario-order.ts";

export interface Collected {
  groups: TrajectoryGroup[];
  report: RolloutReport;
  /** Scenarios drawn in their order: how far the data position moves. */
  drawn: number;
  /** Groups the algorithm did not want (DAPO's dynamic sampling). */
  refused: TrajectoryGroup[];
  rounds: number;
}

export interface CollectPlan {
  step: number;
  /** Scenarios drawn before this step. */
  position: number;
  /** min(0, the lowest reward of the run so far). */
  lowestReward: number;
  config: TrainingConfig;
  controls: Pick<TrainingControls, "temperature" | "scenarioWeights">;
  algorithm: Algorithm;
  rollout: Rollout;
  scenarios: ScenarioOrder;
  recall?: Recall | undefined;
  signal?: AbortSignal | undefined;
}

export async function collect(plan: CollectPlan): Promise<Collected> {
  const { step, config, controls, algorithm, signal } = plan;
  const { settings } = plan.rollout;
  const sampling = { ...settings.sampling, temperature: controls.temperature };
  const rollout = { ...plan.rollout, settings: { ...settings, sampling } };
  const wanted = config.groupsPerStep * config.accumulation;
  const collected: Collected = { groups: [], report: emptyReport(plan.lowestReward), drawn: 0, refused: [], rounds: 0 };
  const scenarioAt = plan.scenarios.weightedBy(controls.scenarioWeights);
  const drawn: Scenario[] = [];
  const draw = () => {
    const ordinal = drawn.length;
    // The last of several; the order goes on where it was.
    const lost = ordinal > 0 && ordinal === wanted - 1 ? lostScenario(plan, drawn) : undefined;
    const scenario = lost ?? scenarioAt(plan.position + collected.drawn++);
    drawn.push(scenario);
    return {
      id: `s${step}-g${ordinal}`,
      scenario,
      size: config.groupSize,
      seed: seedOf(config.seed, "rollout", step, ordinal),
    };
  };
  const options = { report: collected.report, minimum: algorithm.comparesGroups ? 2 : 1, signal };
  // Without keepGroup there is one round: groups lost to failures are not made up for, so that a failing environment cannot stall a run.
  const maxRounds = algorithm.keepGroup ? Math.max(1, algorithm.maxSamplingRounds ?? 1) : 1;
  while (collected.groups.length < wanted && collected.rounds < maxRounds) {
    collected.rounds++;
    // All of them in one wave: the engine decodes faster the more rows a step has.
    const requests = Array.from({ length: wanted - collected.groups.length }, draw);
    for (const group of await sampleGroups(rollout, requests, options)) {
      (keeps(plan, group) ? collected.groups : collected.refused).push(group);
    }
  }
  return collected;
}

/** The lost scenario that has waited longest and is not in the step yet. */
function lostScenario(
  { recall, scenarios, controls: { scenarioWeights } }: CollectPlan,
  drawn: readonly Scenario[],
): Scenario | undefined {
  for (const id of recall?.lost() ?? []) {
    if (scenarioWeights[id] === 0 || drawn.some((scenario) => scenario.id === id)) continue;
    const scenario = scenarios.find(id);
    if (scenario) return scenario;
  }
  return undefined;
}

/** Asked before rewards are shaped: a group in which nobody passes teaches nothing, however its replies differ in length. */
function keeps({ algorithm, recall }: CollectPlan, group: TrajectoryGroup): boolean {
  if (!algorithm.keepGroup) return true;
  const sequences = [...sequencesOf([group]), ...(recall?.joining(group, 0) ?? [])];
  return sequences.length > 0 && algorithm.keepGroup(sequences);
}
