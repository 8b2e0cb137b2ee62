/**
 * The plain optimisation loop that learning from data shares (SFT, DPO, IPO, reward models): epochs of shuffled batches, a schedule,
 * clipping, evaluation in between. What is learnt is the caller's: `learn` adds the gradients of one batch and returns its mean loss.
 */
import { z } from "zod";
import { throwIfAborted } from "../abort.ts";
import type { Agent } from "../agent/agent.ts";
import { StatesetError } from "../error.ts";
import { exclusively } from "../learning/exclusive.ts";
import { noteApplied, noteSkipped, notFiniteError, type SkippedUpdates, tooManySkipped } from "../learning/finite.ts";
import {
  learningRateAt,
  learningRateFor,
  optimiserShape,
  passShape,
  scheduleShape,
  stepOptions,
} from "../learning/optimiser.ts";
import { requireTrainable } from "../learning/trainable.ts";
import type { Policy, StepOptions } from "../policy/policy.ts";
import { createRandom, seedOf } from "../random.ts";

/** The settings every such loop has; spread into the strict schema of each. */
export const fitShape = {
  seed: z.int().min(0).default(0),
  epochs: z.int().min(1).default(1).describe("Passes over the data, each newly shuffled."),
  batchSize: z.int().min(1).default(16).describe("Examples per optimiser step."),
  ...passShape,
  ...optimiserShape,
  ...scheduleShape,
  evaluateEvery: z.int().min(0).default(0).describe("Steps between evaluations; 0: only before and after."),
} as const;

export type FitSettings = z.output<z.ZodObject<typeof fitShape>>;
export type FitOptions = z.input<z.ZodObject<typeof fitShape>>;

export interface FitStep {
  /** From 1. */
  step: number;
  totalSteps: number;
  loss: number;
  learningRate: number;
  gradNorm: number;
  /** False when the loss or gradient was not finite: nothing moved. */
  applied: boolean;
}

/** What a caller may watch, and a way to stop. */
export interface FitCallbacks<E> {
  signal?: AbortSignal | undefined;
  onStep?: ((step: FitStep) => void | Promise<void>) | undefined;
  onEvaluation?: ((evaluation: E & { step: number }) => void | Promise<void>) | undefined;
}

/** The same, for schemas. */
export const callbacksShape = <E>() => ({
  signal: z.instanceof(AbortSignal).optional(),
  onStep: z.custom<FitCallbacks<E>["onStep"]>().optional(),
  onEvaluation: z.custom<FitCallbacks<E>["onEvaluation"]>().optional(),
});

interface FitHooks<E> extends FitCallbacks<E> {
  /** Which parameters move. Default "all". */
  scope?: StepOptions["scope"];
  evaluate?: (() => Promise<E>) | undefined;
}

export interface FitResult<E> {
  steps: number;
  /** Mean loss of each step. */
  losses: number[];
  /** Steps whose update was skipped because the loss or the gradient was not finite. */
  skipped: number[];
  evaluations: (E & { step: number })[];
}

export async function fit<T, E extends object>(
  policy: Policy,
  items: readonly T[],
  settings: FitSettings,
  learn: (batch: readonly T[]) => Promise<number>,
  hooks: FitHooks<E> = {},
): Promise<FitResult<E>> {
  requireTrainable(policy);
  return exclusively(policy, "learning from data", () => fitAlone(policy, items, settings, learn, hooks));
}

async function fitAlone<T, E extends object>(
  policy: Policy,
  items: readonly T[],
  settings: FitSettings,
  learn: (batch: readonly T[]) => Promise<number>,
  hooks: FitHooks<E>,
): Promise<FitResult<E>> {
  const stepsPerEpoch = Math.ceil(items.length / settings.batchSize);
  const totalSteps = stepsPerEpoch * settings.epochs;
  const peak = settings.learningRate ?? learningRateFor(policy.model);
  const result: FitResult<E> = { steps: 0, losses: [], skipped: [], evaluations: [] };
  const evaluate = async (step: number) => {
    if (!hooks.evaluate) return;
    const evaluation = { ...(await hooks.evaluate()), step };
    result.evaluations.push(evaluation);
    await hooks.onEvaluation?.(evaluation);
  };

  throwIfAborted(hooks.signal, "before the first step");
  await evaluate(0);
  const skips: SkippedUpdates = { notFinite: 0, notFiniteInARow: 0 };
  let order: number[] = [];
  for (let step = 1; step <= totalSteps; step++) {
    throwIfAborted(hooks.signal, `after ${step - 1} steps`);
    const from = ((step - 1) % stepsPerEpoch) * settings.batchSize;
    if (from === 0) {
      const epoch = (step - 1) / stepsPerEpoch;
      order = createRandom(seedOf(settings.seed, "epoch", epoch)).shuffled(items.map((_, i) => i));
    }
    const batch = order.slice(from, from + settings.batchSize).map((i) => items[i]!);
    const loss = await learn(batch);
    const learningRate = learningRateAt(step, { ...settings, steps: totalSteps, learningRate: peak });
    const options = { ...stepOptions(settings, learningRate), ...(hooks.scope && { scope: hooks.scope }) };
    let report = { gradNorm: Number.NaN, applied: false };
    if (Number.isFinite(loss)) report = await policy.step(options);
    else await policy.zeroGradients();
    if (report.applied) noteApplied(skips);
    else {
      noteSkipped(skips);
      result.skipped.push(step);
    }
    if (tooManySkipped(skips)) {
      const hint =
        "The model is as the last good step left it and can be saved. Lower the learning rate, or look for broken examples.";
      throw notFiniteError(Number.isFinite(loss) ? "gradient" : "loss", step, hint);
    }
    result.steps = step;
    result.losses.push(loss);
    await hooks.onStep?.({ step, totalSteps, loss, learningRate, ...report });
    const due = settings.evaluateEvery > 0 && step % settings.evaluateEvery === 0;
    if (due || step === totalSteps) await evaluate(step);
  }
  return result;
}

/** Who learns: an agent (initialised when needed) or a bare policy. */
export type AgentOrPolicy = { agent: Agent; policy?: never } | { policy: Policy; agent?: never };

export async function policyOf(
  { agent, policy }: { agent?: Agent | undefined; policy?: Policy | undefined },
  where: string,
): Promise<Policy> {
  if ((agent === undefined) === (policy === undefined)) {
    throw new StatesetError("INVALID_OPTION", `${where} needs an agent or a policy, one of them.`);
  }
  await agent?.initialize();
  return agent?.policy ?? policy!;
}

/** The same, for schemas. */
export const agentOrPolicyShape = {
  agent: z
    .custom<Agent>((v) => typeof (v as Agent | null)?.startConversation === "function", "expected an Agent")
    .optional(),
  policy: z.custom<Policy>((v) => typeof (v as Policy | null)?.forward === "function", "expected a Policy").optional(),
} as const;
