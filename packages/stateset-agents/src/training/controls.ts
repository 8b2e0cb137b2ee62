import { adaptKl } from "../algorithm/kl.ts";
import type { Metrics } from "../run/metrics.ts";
import type { TrainingConfig } from "./config.ts";

/**
 * What may be changed while a run is under way (by `autoAdjust` or a callback, in onStepEnd). Part of every checkpoint,
 * so a resumed run goes on with the same settings.
 */
export interface TrainingControls {
  /** On the scheduled learning rate. */
  learningRateScale: number;
  /** Of the run's own KL penalty (`kl.coefficient`). */
  klCoefficient: number;
  entropyBonus: number;
  /** Of rollouts. */
  temperature: number;
  /** How often a scenario is drawn relative to others, by id; 1 where absent. While all are the same each comes once per round, shuffled. */
  scenarioWeights: Record<string, number>;
}

/** `ownTemperature` is the agent's, for a run that sets none. */
export function initialControls(config: TrainingConfig, ownTemperature: number): TrainingControls {
  return {
    learningRateScale: 1,
    klCoefficient: config.kl.coefficient,
    entropyBonus: config.entropyBonus,
    temperature: config.sampling.temperature ?? ownTemperature,
    scenarioWeights: {},
  };
}

/** Lets the coefficient of the run's own KL penalty follow the KL that a step has shown (`kl.adapt`). */
export function followKl(controls: TrainingControls, { adapt }: TrainingConfig["kl"], learnt: Readonly<Metrics>): void {
  const { kl, learnedConversations: sequences = 0 } = learnt;
  if (!adapt || kl === undefined || !Number.isFinite(kl)) return;
  controls.klCoefficient = adaptKl(controls.klCoefficient, kl, { ...adapt, sequences });
}
