import { z } from "zod";
import { sftLoss } from "../algorithm/loss/sft.ts";
import { learnCount } from "../conversation/learn-tokens.ts";
import type { TreeChain } from "../conversation/token-tree.ts";
import { describeList } from "../describe.ts";
import { alikeBatches, gather, scatter } from "../learning/micro-batch.ts";
import { batchTokens, defaultTokenBudget, type PassSettings } from "../learning/optimiser.ts";
import type { Unit } from "../learning/pack.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import type { Policy } from "../policy/policy.ts";
import { exampleRecords, type SeenNumbers } from "../run/example-records.ts";
import { runShape } from "../run/options.ts";
import { encodeExamples, type SupervisedExample } from "./example.ts";
import { type FitResult, fit } from "./fit.ts";
import {
  type AgentOrPolicy,
  agentOrPolicyShape,
  type FitOptions,
  fitShape,
  policyOf,
  readFitOptions,
  splitFitOptions,
} from "./fit-options.ts";

export type SupervisedOptions = AgentOrPolicy &
  FitOptions & {
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
  ...runShape,
  ...agentOrPolicyShape,
  examples: z.array(z.custom<SupervisedExample>()).min(1),
  heldOut: z.array(z.custom<SupervisedExample>()).min(1).optional(),
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
  const given = readFitOptions(schema, options, ["sft"], "trainSupervised()");
  const { agent, examples, heldOut } = given;
  const policy = await policyOf(given, "trainSupervised()");
  const { settings, on } = splitFitOptions(given, fitShape, policy);
  const { contextLength } = policy.model;
  const { chains, sources, truncated, dropped, spelt } = encodeExamples(policy.tokenizer, examples, contextLength);
  const test = heldOut && encodeExamples(policy.tokenizer, heldOut, contextLength).chains;
  const tokens = chains.map(learnCount);
  const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

  const result = await fit<SupervisedEvaluation>({
    learner: "sft",
    policy,
    agent,
    on,
    settings,
    defaults: z.object(fitShape).parse({}),
    data: { examples: describeList(examples), ...(heldOut && { heldOut: describeList(heldOut) }) },
    count: chains.length,
    cut: cutText(examples.length, truncated, dropped),
    learn: (batch, signal, seen) =>
      learn(
        policy,
        batch.map((i) => chains[i]!),
        settings,
        signal,
        seen && ((member, numbers) => void seen.set(batch[member]!, numbers)),
      ),
    record: (batch, step, seen) =>
      exampleRecords(
        step,
        batch.map((i) => {
          const { index, conversation } = sources[i]!;
          return { id: `example-${index}`, chains: [chains[i]!], ...conversation, learnt: seen.get(i) };
        }),
      ),
    tokens: (batch) => sum(batch.map((i) => tokens[i]!)),
    evaluate: test && ((signal) => evaluateChains(policy, test, settings.tokenBudget, signal)),
  });
  return { ...result, examples: chains.length, tokens: sum(tokens), truncated, dropped, spelt };
}

function cutText(examples: number, truncated: number, dropped: number): string | undefined {
  const said = [
    truncated > 0 && `${truncated} were cut at the model's context`,
    dropped > 0 && `${dropped} have no assistant token to learn from and were left out`,
  ].filter(Boolean);
  return said.length === 0 ? undefined : `Of ${examples} examples ${said.join(", ")}.`;
}

/** Adds the gradient of the batch's mean token loss and returns that loss. */
async function learn(
  policy: Policy,
  batch: readonly TreeChain[],
  settings: PassSettings,
  signal: AbortSignal | undefined,
  note: ((member: number, numbers: SeenNumbers) => void) | undefined,
): Promise<number> {
  const tokens = batch.reduce((sum, chain) => sum + learnCount(chain), 0);
  const batches = alikeBatches(units(batch), batchTokens(policy, settings.tokenBudget));
  return addGradients(
    policy,
    batches,
    { recompute: settings.recompute },
    (micro, pass) => {
      const scored = gather(micro, pass.logprobs).map((logprobs) => ({ logprobs }));
      if (note) micro.members.forEach((member, i) => void note(member, scored[i]!));
      const { loss, dLogprobs } = sftLoss(scored, { tokens });
      return { loss, derivatives: { logprobs: scatter(micro, dLogprobs) } };
    },
    signal,
  );
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
  return evaluateChains(policy, chains, options.tokenBudget ?? defaultTokenBudget(policy));
}

async function evaluateChains(
  policy: Policy,
  chains: readonly TreeChain[],
  tokenBudget: number,
  signal?: AbortSignal,
): Promise<SupervisedEvaluation> {
  let sum = 0;
  let tokens = 0;
  await scorePasses(
    policy,
    alikeBatches(units(chains), batchTokens(policy, tokenBudget)),
    {},
    (micro, pass) => {
      for (const logprobs of gather(micro, pass.logprobs)) {
        for (const logprob of logprobs) sum -= logprob;
        tokens += logprobs.length;
      }
    },
    signal,
  );
  const loss = sum / tokens;
  return { loss, perplexity: Math.exp(loss), tokens };
}
