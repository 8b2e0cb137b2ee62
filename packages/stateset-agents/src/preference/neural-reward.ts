import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { rewardModelFileName } from "../agent/agent-file.ts";
import { sigmoid } from "../algorithm/loss/preference.ts";
import type { Message } from "../conversation/message.ts";
import type { TreeChain } from "../conversation/token-tree.ts";
import type { RewardResult } from "../conversation/trajectory.ts";
import { writeFailed, writeJsonAtomic } from "../durable.ts";
import { StatesetError } from "../error.ts";
import { alikeBatches } from "../learning/micro-batch.ts";
import { batchTokens, defaultTokenBudget } from "../learning/optimiser.ts";
import { scorePasses } from "../learning/passes.ts";
import { type OpenPolicyOptions, openPolicy } from "../policy/open-policy.ts";
import type { Policy } from "../policy/policy.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward/reward-function.ts";
import { rewardChain } from "./reward-data.ts";

/** What a trained reward model is beside its weights. Kept in `reward-model.json`. */
export interface RewardModelInfo {
  /** Longest conversation it reads, in tokens; older ones are left out. */
  maxTokens: number;
  /** Mean and standard deviation of the raw score over the conversations it was trained on. */
  mean: number;
  deviation: number;
  /** Put before conversations that bring no system message of their own. */
  systemPrompt?: string | undefined;
}

export interface NeuralRewardOptions extends RewardOptions {
  /**
   * What `score` is. "standardised" (default): the raw score in standard deviations from the mean of the training data.
   * "probability": σ of the raw score, the chance of being called good by a model trained on labels. "raw": as the head gives it.
   */
  output?: "standardised" | "probability" | "raw";
}

const infoSchema = z.strictObject({
  format: z.literal(1),
  maxTokens: z.int().min(1),
  mean: z.number(),
  deviation: z.number().positive(),
  systemPrompt: z.string().optional(),
});

/** A learned reward: the value head of a policy at the last token of the conversation. */
export class NeuralReward extends RewardFunction {
  readonly policy: Policy;
  readonly info: Readonly<RewardModelInfo>;
  readonly #output: NonNullable<NeuralRewardOptions["output"]>;
  readonly #groups = new WeakMap<readonly RewardInput[], Promise<number[]>>();

  constructor(policy: Policy, info: RewardModelInfo, options: NeuralRewardOptions = {}) {
    const output = options.output ?? "standardised";
    super({ ...options, name: options.name ?? "neural" }, { output, model: policy.model.digest, ...info });
    this.policy = policy;
    this.info = info;
    this.#output = output;
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    const group = context.group?.includes(conversation) ? context.group : [conversation];
    let scores = this.#groups.get(group);
    if (!scores) {
      // The members of a group share their beginning: scored together it is computed once.
      const { untimed = (wait) => wait() } = context;
      scores = untimed(() => this.rawScores(group.map(({ turns }) => turns)));
      this.#groups.set(group, scores);
      scores.catch(() => this.#groups.delete(group));
    }
    const raw = (await scores)[group.indexOf(conversation)]!;
    const score = this.#convert(raw);
    return { score, breakdown: { [this.name]: score }, metadata: { raw } };
  }

  /** The head's own numbers for several conversations. */
  async rawScores(conversations: readonly (readonly Message[])[]): Promise<number[]> {
    const { systemPrompt, maxTokens } = this.info;
    const chains = conversations.map((turns) => {
      const bare = systemPrompt === undefined || turns[0]?.role === "system" || turns[0]?.role === "developer";
      const messages: readonly Message[] = bare ? turns : [{ role: "system", content: systemPrompt }, ...turns];
      return rewardChain(this.policy.tokenizer, { messages }, maxTokens);
    });
    return scoreChains(this.policy, chains);
  }

  /** Writes the model with its head, and `reward-model.json` beside it. */
  async save(dir: string): Promise<void> {
    try {
      await mkdir(dir, { recursive: true });
      await this.policy.save(dir);
      writeJsonAtomic(join(dir, rewardModelFileName), { format: 1, ...this.info });
    } catch (error) {
      throw writeFailed(dir, error);
    }
  }

  close(): Promise<void> {
    return this.policy.close();
  }

  #convert(raw: number): number {
    if (this.#output === "raw") return raw;
    if (this.#output === "probability") return sigmoid(raw);
    return (raw - this.info.mean) / this.info.deviation;
  }
}

/** Opens what `NeuralReward.save` wrote. `open` is for engines other than the embedded one. */
export async function loadNeuralReward(
  dir: string,
  options: NeuralRewardOptions & { open?: (options: OpenPolicyOptions) => Promise<Policy> } = {},
): Promise<NeuralReward> {
  const file = join(dir, rewardModelFileName);
  if (!existsSync(file)) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no reward model in ${dir}.`, {
      hint: "NeuralReward.save() writes one.",
    });
  }
  const { open = openPolicy, ...rest } = options;
  let info: z.output<typeof infoSchema>;
  try {
    info = infoSchema.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${file} is damaged.`, { cause: error });
  }
  const policy = await open({ model: dir });
  if (!policy.model.valueHead) {
    await policy.close();
    throw new StatesetError("CHECKPOINT_INVALID", `The model in ${dir} has no value head to score with.`);
  }
  const { format: _, ...known } = info;
  return new NeuralReward(policy, known, rest);
}

/** The value head at the last token of each chain. */
export async function scoreChains(
  policy: Policy,
  chains: readonly TreeChain[],
  tokenBudget = defaultTokenBudget(policy),
  signal?: AbortSignal,
): Promise<number[]> {
  const scores = new Array<number>(chains.length);
  const batches = alikeBatches(
    chains.map((chain) => ({ chains: [chain] })),
    batchTokens(policy, tokenBudget),
  );
  await scorePasses(
    policy,
    batches,
    { values: true },
    (micro, pass) => {
      micro.members.forEach((member, i) => {
        scores[member] = pass.values![micro.merged.positions[i]!.at(-1)!]!;
      });
    },
    signal,
  );
  return scores;
}
