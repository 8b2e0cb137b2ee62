import { z } from "zod";
import { sftLoss } from "../algorithm/loss/sft.ts";
import type { TreeChain } from "../conversation/token-tree.ts";
import { alikeBatches, gather, scatter } from "../learning/micro-batch.ts";
import type { PassSettings } from "../learning/optimiser.ts";
import type { Unit } from "../learning/pack.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import { parseOptions } from "../options.ts";
import type { Policy } from "../policy/policy.ts";
import { encodeExamples, learnCount, type SupervisedExample } from "./example.ts";
import {
  type AgentOrPolicy,
  agentOrPolicyShape,
  callbacksShape,
  type FitCallbacks,
  type FitOptions,
  type FitResult,
  fit,
  fitShape,
  policyOf,
} from "./fit.ts";

export type SupervisedOptions = AgentOrPolicy &
  FitOptions &
  FitCallbacks<SupervisedEvaluation> & {
    /** Conversations (`readChats` gives them from a file), or recorded tokens (`chainsOf(harvest.kept)`). */
    examples: readonly SupervisedExample[];
    /** Held-out examples whose loss is reported. */
    heldOut?: readonly SupervisedExample[];
  };

export interface SupervisedEvaluation {
  /** Mean negative log-likelihood of an assistant token, in nats. */
  loss: number;
  perplexity: number;
  tokens: number;
}

export interface SupervisedResult extends FitResult<SupervisedEvaluation> {
  /** What was learnt from, and what of the data was cut at the context or left out. */
  examples: number;
  tokens: number;
  truncated: number;
  dropped: number;
  /** Examples whose assistant spells control tokens (`<tool_call>` in a content): they are learnt as plain text. */
  spelt: number;
}

const schema = z.strictObject({
  ...fitShape,
  ...agentOrPolicyShape,
  examples: z.array(z.custom<SupervisedExample>()).min(1),
  heldOut: z.array(z.custom<SupervisedExample>()).min(1).optional(),
  ...callbacksShape<SupervisedEvaluation>(),
});

/**
 * Supervised fine-tuning on the assistant's tokens of conversations.
 *
 * @example
 * const examples = [];
 * for await (const chat of readChats("chats.jsonl")) examples.push(chat);
 * await trainSupervised({ agent, examples, epochs: 2 });
 */
export async function trainSupervised(options: SupervisedOptions): Promise<SupervisedResult> {
  const {
    agent,
    policy: bare,
    examples,
    heldOut,
    signal,
    onStep,
    onEvaluation,
    ...settings
  } = parseOptions(schema, options, "trainSupervised()");
  const policy = await policyOf({ agent, policy: bare }, "trainSupervised()");
  const { contextLength } = policy.model;
  const { chains, ...counts } = encodeExamples(policy.tokenizer, examples, contextLength);
  const heldOutChains = heldOut && encodeExamples(policy.tokenizer, heldOut, contextLength).chains;

  const result = await fit<TreeChain, SupervisedEvaluation>(
    policy,
    chains,
    settings,
    (batch) => learn(policy, batch, settings),
    {
      signal,
      onStep,
      onEvaluation,
      evaluate: heldOutChains && (() => evaluateChains(policy, heldOutChains, settings.tokenBudget)),
    },
  );
  const tokens = chains.reduce((sum, chain) => sum + learnCount(chain), 0);
  return { ...result, examples: chains.length, tokens, ...counts };
}

/** Adds the gradient of the batch's mean token loss and returns that loss. */
async function learn(policy: Policy, batch: readonly TreeChain[], settings: PassSettings): Promise<number> {
  const tokens = batch.reduce((sum, chain) => sum + learnCount(chain), 0);
  const batches = alikeBatches(units(batch), settings.tokenBudget);
  return addGradients(policy, batches, { recompute: settings.recompute }, (micro, pass) => {
    const scored = gather(micro, pass.logprobs).map((logprobs) => ({ logprobs }));
    const { loss, dLogprobs } = sftLoss(scored, { tokens });
    return { loss, derivatives: { logprobs: scatter(micro, dLogprobs) } };
  });
}

function units(chains: readonly TreeChain[]): Unit[] {
  return chains.map((chain) => ({ chains: [chain] }));
}

/** Loss and perplexity of a policy on conversations it does not learn from. */
export async function evaluateSupervised(
  policy: Policy,
  examples: readonly SupervisedExample[],
  options: { tokenBudget?: number } = {},
): Promise<SupervisedEvaluation> {
  const { chains } = encodeExamples(policy.tokenizer, examples, policy.model.contextLength);
  return evaluateChains(policy, chains, options.tokenBudget ?? 8192);
}

async function evaluateChains(policy: Policy, chains: readonly TreeChain[], tokenBudget: number) {
  let sum = 0;
  let tokens = 0;
  await scorePasses(policy, alikeBatches(units(chains), tokenBudget), {}, (micro, pass) => {
    for (const logprobs of gather(micro, pass.logprobs)) {
      for (const logprob of logprobs) sum -= logprob;
      tokens += logprobs.length;
    }
  });
  const loss = sum / tokens;
  return { loss, perplexity: Math.exp(loss), tokens };
}
