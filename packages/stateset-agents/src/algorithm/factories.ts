/** Puts advantages and loss of each algorithm together; options are already validated. */
import type { z } from "zod";
import { baselineAdvantages } from "./advantage/baseline.ts";
import { rewardsOf, withGroupTokens } from "./advantage/batch.ts";
import { gaeAdvantages, nStep, valueAdvantages, valueBeyond } from "./advantage/gae.ts";
import { groupAdvantages, type Scale } from "./advantage/group.ts";
import { leaveOneOutAdvantages } from "./advantage/leave-one-out.ts";
import { lengthAdaptiveAdvantages } from "./advantage/length-adaptive-gae.ts";
import { multiRewardAdvantages } from "./advantage/multi-reward.ts";
import { reinforcePlusPlusAdvantages } from "./advantage/reinforce-plus-plus.ts";
import { stateAdvantages } from "./advantage/state-credit.ts";
import { tokenRewards, turnAdvantages } from "./advantage/turn-credit.ts";
import type { AdvantageFunction, Algorithm, LossFunction, Needs } from "./algorithm.ts";
import type { Correction } from "./correction.ts";
import { adaptKl } from "./kl.ts";
import { a2cLoss } from "./loss/a2c.ts";
import { bnpoLoss } from "./loss/bnpo.ts";
import { cispoLoss } from "./loss/cispo.ts";
import { dapoLoss, teaches } from "./loss/dapo.ts";
import { drGrpoLoss } from "./loss/dr-grpo.ts";
import { gepoLoss, withGroupExpectation } from "./loss/gepo.ts";
import { gmpoLoss } from "./loss/gmpo.ts";
import { grpoLoss } from "./loss/grpo.ts";
import { gspoLoss } from "./loss/gspo.ts";
import { gspoTokenLoss } from "./loss/gspo-token.ts";
import { luspoLoss } from "./loss/luspo.ts";
import { ppoLoss } from "./loss/ppo.ts";
import { reinforceLoss } from "./loss/reinforce.ts";
import { reinforcePlusPlusLoss } from "./loss/reinforce-plus-plus.ts";
import { rlooLoss } from "./loss/rloo.ts";
import { sapoLoss } from "./loss/sapo.ts";
import { trpoKl, trpoLoss } from "./loss/trpo.ts";
import { vapoLoss, withPositiveScale } from "./loss/vapo.ts";
import type { AlgorithmName, schemas } from "./options.ts";
import { overlongPenalty } from "./overlong.ts";

export type Parts = Omit<Algorithm, "name" | "options">;
type Resolved<N extends AlgorithmName> = z.output<(typeof schemas)[N]>;

interface Penalties {
  correction?: Correction | false | undefined;
  beta: number;
  klIn: "loss" | "reward";
  entropyCoefficient: number;
}

interface Relative extends Penalties {
  scale: Scale;
  rewardWeights?: Record<string, number> | undefined;
  credit?: "episode" | "turn" | "state";
  stateWeight?: number | undefined;
  stateDiscount?: number | undefined;
}

function needsOf(o: { beta?: number; entropyCoefficient?: number }, values = false): Needs {
  return { reference: (o.beta ?? 0) > 0, entropy: (o.entropyCoefficient ?? 0) > 0, values };
}

/** The options with β only where the penalty is in the loss. */
function inLoss<O extends Penalties>(o: O): O {
  return { ...o, beta: o.klIn === "loss" ? o.beta : 0 };
}

function betaInReward(o: Penalties): number {
  return o.klIn === "reward" ? o.beta : 0;
}

/** An algorithm without values. */
function criticFree(o: Penalties, advantages: AdvantageFunction, loss: LossFunction): Parts {
  return {
    needs: needsOf(o),
    usesZeroAdvantages: inLoss(o).beta > 0 || o.entropyCoefficient > 0,
    advantages,
    loss,
  };
}

function relativeAdvantages(o: Relative): AdvantageFunction {
  const { scale, rewardWeights: weights } = o;
  const beta = betaInReward(o);
  if (weights) return (sequences) => multiRewardAdvantages(sequences, { weights });
  if (o.credit === "turn")
    return (sequences) => turnAdvantages(sequences, { scale, rewards: rewardsOf(sequences, beta) });
  if (o.credit === "state") {
    const [weight, discount] = [o.stateWeight!, o.stateDiscount!];
    return (sequences) => stateAdvantages(sequences, { scale, weight, discount, rewards: rewardsOf(sequences, beta) });
  }
  return (sequences) => groupAdvantages(sequences, { scale, beta });
}

function relative(o: Relative, loss: LossFunction, advantages = relativeAdvantages(o)): Parts {
  return { ...criticFree(o, advantages, loss), comparesGroups: true };
}

export const factories: { [N in AlgorithmName]: (options: Resolved<N>) => Parts } = {
  grpo: (o) => relative(o, grpoLoss(inLoss(o))),
  "dr-grpo": (o) => {
    const parts = relative(o, drGrpoLoss(inLoss(o)));
    return { ...parts, needs: { ...parts.needs, maxTokens: true } };
  },
  bnpo: (o) => {
    const advantages = relativeAdvantages(o);
    return relative(o, bnpoLoss(inLoss(o)), (sequences) => withGroupTokens(sequences, advantages(sequences)));
  },
  dapo: (o) => ({
    ...relative(o, dapoLoss(inLoss(o))),
    ...(o.dynamicSampling && { keepGroup: teaches(relativeAdvantages(o)), maxSamplingRounds: o.maxSamplingRounds }),
    ...(o.overlongPenalty > 0 && {
      shapeReward: (sequence, replyTokens) =>
        sequence.reward + o.overlongPenalty * overlongPenalty(sequence, replyTokens, o.overlongBuffer),
    }),
  }),
  gspo: (o) => relative(o, gspoLoss(inLoss(o))),
  "gspo-token": (o) => relative(o, gspoTokenLoss(inLoss(o))),
  gepo: (o) => {
    const advantages = relativeAdvantages(o);
    return relative(o, gepoLoss(inLoss(o)), (sequences) => withGroupExpectation(sequences, advantages(sequences)));
  },
  cispo: (o) => relative(o, cispoLoss(inLoss(o))),
  sapo: (o) => relative(o, sapoLoss(inLoss(o))),
  gmpo: (o) => relative(o, gmpoLoss(inLoss(o))),
  luspo: (o) => relative(o, luspoLoss(inLoss(o))),
  ppo: createPpo,
  vapo: (o) => ({
    needs: needsOf(o, true),
    usesZeroAdvantages: true,
    valueWarmupSteps: o.valueWarmupSteps ?? ((steps) => Math.min(50, Math.floor(steps / 10))),
    advantages: (sequences) => {
      const { lengthAlpha: alpha, lambdaFloor: floor, gamma, whiten, bootstrap } = o;
      const options = { alpha, floor, gamma, beta: betaInReward(o), whiten, bootstrap };
      return withPositiveScale(sequences, lengthAdaptiveAdvantages(sequences, options), o.successThreshold);
    },
    loss: vapoLoss(inLoss(o)),
  }),
  a2c: (o) => ({
    needs: needsOf(o, true),
    usesZeroAdvantages: true,
    singlePass: true,
    advantages: (sequences) =>
      o.nSteps === null
        ? gaeAdvantages(sequences, o)
        : valueAdvantages(sequences, o.whiten, (sequence, values) =>
            nStep(tokenRewards(sequence), values, o.gamma ?? 1, o.nSteps!, valueBeyond(sequence, o.bootstrap)),
          ),
    loss: a2cLoss(o),
  }),
  trpo: (o) => {
    const { maxKl, cgSteps, damping, backtracks, backtrackRatio, correction } = o;
    return {
      needs: needsOf({}),
      advantages: relativeAdvantages({ ...o, beta: 0, klIn: "loss", entropyCoefficient: 0 }),
      comparesGroups: true,
      loss: trpoLoss({ correction }),
      trustRegion: { kl: trpoKl, maxKl, cgSteps, damping, backtracks, backtrackRatio },
    };
  },
  rloo: (o) => ({
    ...criticFree(o, (sequences) => leaveOneOutAdvantages(sequences, { beta: betaInReward(o) }), rlooLoss(inLoss(o))),
    comparesGroups: true,
  }),
  reinforce: (o) => ({
    ...criticFree(
      o,
      (sequences) => baselineAdvantages(sequences, { baseline: o.baseline, beta: betaInReward(o) }),
      reinforceLoss(inLoss(o)),
    ),
    singlePass: true,
    comparesGroups: o.baseline === "group",
  }),
  "reinforce++": (o) => ({
    needs: needsOf(o),
    comparesGroups: o.baseline === "group",
    usesZeroAdvantages: o.entropyCoefficient > 0,
    advantages: (sequences) => reinforcePlusPlusAdvantages(sequences, o),
    loss: reinforcePlusPlusLoss({ ...o, beta: 0 }),
  }),
};

/** The only algorithm with state: β, where targetKl lets it move. */
function createPpo(o: Resolved<"ppo">): Parts {
  let beta = o.beta;
  let sequences = 0;
  const current = () => (o.klIn === "loss" ? beta : 0);
  const loss = ppoLoss({ ...o, beta: current });
  const { targetKl: target } = o;
  return {
    needs: needsOf(o, true),
    usesZeroAdvantages: true,
    advantages: (batch) => gaeAdvantages(batch, { ...o, beta: o.klIn === "reward" ? beta : 0 }),
    loss: (micro, counts) => {
      sequences = counts.sequences;
      return loss(micro, counts);
    },
    ...(target !== undefined && {
      afterUpdate: ({ kl }) => {
        if (kl !== undefined && Number.isFinite(kl))
          beta = adaptKl(beta, kl, { target, horizon: o.klHorizon, sequences });
      },
      state: () => ({ beta }),
      restore: (state) => {
        beta = state.beta ?? beta;
      },
    }),
  };
}
