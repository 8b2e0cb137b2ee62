import { z } from "zod";
import { gaeAdvantages } from "../algorithm/advantage/gae.ts";
import type { Advantages } from "../algorithm/algorithm.ts";
import { toConversationRecord } from "../conversation/record.ts";
import type { Trajectory } from "../conversation/trajectory.ts";
import { describeList } from "../describe.ts";
import { StatesetError } from "../error.ts";
import { gatherValues, microBatches, scatterValues } from "../learning/micro-batch.ts";
import { batchTokens, defaultTokenBudget } from "../learning/optimiser.ts";
import { addGradients, scorePasses } from "../learning/passes.ts";
import { type ChainSequence, sequenceOf } from "../learning/sequence.ts";
import { mergeDefined, parseOptions } from "../options.ts";
import type { Policy } from "../policy/policy.ts";
import { runShape } from "../run/options.ts";
import { requireLearnTokens } from "./example.ts";
import { type FitResult, fit } from "./fit.ts";
import {
  type AgentOrPolicy,
  agentOrPolicyShape,
  fitShape,
  policyOf,
  readFitOptions,
  splitFitOptions,
} from "./fit-options.ts";

const { evaluateEvery: _, ...fitOptions } = fitShape;

const schema = z.strictObject({
  ...agentOrPolicyShape,
  /** A step of the estimate is a reply ("turn") or a token. */
  level: z.enum(["turn", "token"]).default("turn"),
  /** Discount per step. Default: 0.99 for turns, 1 for tokens. */
  gamma: z.number().min(0).max(1).optional(),
  /** λ of generalised advantage estimation. */
  gaeLambda: z.number().min(0).max(1).default(0.95),
  tokenBudget: fitShape.tokenBudget,
});

/** The settings of ValueFunction.fit(), without those of its run. */
export const valueFitShape = {
  ...fitOptions,
  /** Whether the language model under the head learns as well. Default: the head alone, so that the agent talks as before. */
  trunk: z.boolean().default(false),
} as const;
const fitSchema = z.strictObject({ ...valueFitShape, ...runShape });

export type ValueFunctionOptions = AgentOrPolicy & Omit<z.input<typeof schema>, "agent" | "policy">;
export type ValueFitOptions = z.input<typeof fitSchema>;

/**
 * V(state): the reward that is still to come, read off the policy's hidden states by a scalar head. PPO, A2C and VAPO train it with the
 * policy; here it is trained on its own and used for advantages outside of train(). The head stays on the policy.
 *
 * Every array has one number per token the policy sampled in a conversation, in order.
 *
 * @example
 * const values = new ValueFunction({ agent, gamma: 0.99, gaeLambda: 0.95 });
 * const targets = (await values.advantages(conversations)).map(({ returns }) => returns!);
 * await values.fit(conversations, targets, { epochs: 4, learningRate: 1e-3 });
 */
export class ValueFunction {
  readonly #options: z.output<typeof schema>;

  constructor(options: ValueFunctionOptions) {
    this.#options = parseOptions(schema, options, "ValueFunction");
  }

  /** V(state before each sampled token). [conversations][tokens] */
  async predict(conversations: readonly Trajectory[]): Promise<Float32Array[]> {
    const policy = await this.#policy();
    const sequences = conversations.map(sequenceOf);
    const values: Float32Array[] = sequences.map(() => new Float32Array(0));
    const { tokenBudget = defaultTokenBudget(policy) } = this.#options;
    const batches = microBatches(sequences, withTokens(sequences), batchTokens(policy, tokenBudget));
    await scorePasses(policy, batches, { values: true }, (batch, pass) => {
      const own = gatherValues(batch, pass.values!);
      batch.members.forEach((member, i) => {
        values[member] = own[i]!;
      });
    });
    return values;
  }

  /** Generalised advantage estimates from the conversations' rewards, with the value targets (`returns`). */
  async advantages(conversations: readonly Trajectory[]): Promise<Advantages[]> {
    const { level, gamma, gaeLambda } = this.#options;
    const values = await this.predict(conversations);
    const sequences = conversations.map((conversation, i) => ({
      ...sequenceOf(conversation, i),
      oldValues: values[i]!,
    }));
    return gaeAdvantages(sequences, { level, gamma, lambda: gaeLambda });
  }

  /** Learns ½·(V − return)², a mean over tokens. */
  async fit(
    conversations: readonly Trajectory[],
    returns: readonly ArrayLike<number>[],
    options: ValueFitOptions = {},
  ): Promise<FitResult<object>> {
    const { agent } = this.#options;
    const own = mergeDefined({ ...options }, { tokenBudget: this.#options.tokenBudget });
    const given = readFitOptions(fitSchema, own, ["value-function"], "ValueFunction.fit()");
    requireLearnTokens(conversations, "ValueFunction.fit()");
    const policy = await this.#policy();
    const { settings, on } = splitFitOptions({ ...given, evaluateEvery: 0 }, valueFitShape, policy);
    const { trunk, tokenBudget } = settings;
    const sequences = conversations.map(sequenceOf);
    sequences.forEach(({ old }, i) => {
      const [have, want] = [returns[i]?.length ?? 0, old.length];
      if (have === want) return;
      throw new StatesetError("INVALID_DATA", `Conversation ${i} has ${want} sampled tokens and ${have} returns.`, {
        hint: "Give one return for each token the policy sampled.",
      });
    });
    const learnt = withTokens(sequences);
    const count = (members: readonly number[]) => members.reduce((sum, member) => sum + returns[member]!.length, 0);
    const learn = async (
      members: readonly number[],
      signal: AbortSignal | undefined,
      note: ((member: number, value: Float32Array) => void) | undefined,
    ) => {
      const tokens = count(members);
      const batches = microBatches(sequences, members, batchTokens(policy, tokenBudget));
      const want = { values: true, recompute: settings.recompute };
      return addGradients(
        policy,
        batches,
        want,
        (micro, pass) => {
          let loss = 0;
          const predicted = gatherValues(micro, pass.values!);
          if (note) micro.members.forEach((member, i) => void note(member, predicted[i]!));
          const derivatives = predicted.map((values, i) =>
            values.map((value, t) => {
              const error = value - returns[micro.members[i]!]![t]!;
              loss += (0.5 * error * error) / tokens;
              return error / tokens;
            }),
          );
          return { loss, derivatives: { values: scatterValues(micro, derivatives), valuesIntoTrunk: trunk } };
        },
        signal,
      );
    };
    const membersOf = (batch: readonly number[]) => batch.map((i) => learnt[i]!);
    return fit({
      learner: "value-function",
      policy,
      agent,
      on,
      settings: { ...settings, evaluateEvery: 0 },
      defaults: { ...z.object(valueFitShape).parse({}), evaluateEvery: 0 },
      data: { conversations: describeList(conversations), returns: describeList(returns) },
      count: learnt.length,
      learn: (batch, signal, seen) =>
        learn(membersOf(batch), signal, seen && ((member, value) => void seen.set(member, { value }))),
      record: (batch, step, seen) =>
        membersOf(batch).map((i) => ({
          record: toConversationRecord(conversations[i]!, { step }),
          chains: conversations[i]!.chains,
          learnt: seen.get(i),
        })),
      tokens: (batch) => count(membersOf(batch)),
      step: { scope: trunk ? "all" : "value" },
    });
  }

  async #policy(): Promise<Policy> {
    const policy = await policyOf(this.#options, "ValueFunction");
    await policy.addValueHead();
    return policy;
  }
}

/** Indices of the conversations in which the policy sampled anything. */
function withTokens(sequences: readonly ChainSequence[]): number[] {
  return sequences.flatMap(({ old }, i) => (old.length > 0 ? [i] : []));
}
