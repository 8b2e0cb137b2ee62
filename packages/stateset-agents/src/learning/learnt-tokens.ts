/** What learning knew of single tokens, kept from the passes that are made anyway. Only asked for in steps that are recorded. */
import type { Advantages } from "../algorithm/algorithm.ts";
import { learnCount } from "../conversation/learn-tokens.ts";
import type { TokenChain, Trajectory } from "../conversation/trajectory.ts";
import type { ChainSequence } from "./sequence.ts";

/** One number per learn token of a conversation, over all its chains, in order. What is missing was not known. [tokens] */
export interface LearntNumbers {
  advantage?: Float32Array;
  /** Policy ÷ the one the step began with, as the last pass that scored the token had it: 1 where there is one pass. */
  ratio?: Float32Array;
  /** In nats, by the same pass. */
  entropy?: Float32Array;
  /** Log-prob under the reference. */
  reference?: Float32Array;
  /** V(state before the token): by the same pass, or where none scored it, as the step began. */
  value?: Float32Array;
}

/** What a pass says of some members of a batch. */
interface Scored {
  old: Float32Array;
  logprobs: Float32Array;
  entropy?: Float32Array;
  values?: Float32Array;
}

export class LearntTokens {
  /** By the first chain with learn tokens, which no two conversations share. */
  readonly #numbers = new Map<TokenChain, LearntNumbers>();

  /** Of these conversations alone. */
  constructor(trajectories: readonly Pick<Trajectory, "chains">[]) {
    for (const { chains } of trajectories) {
      const first = chains.find((chain) => learnCount(chain) > 0);
      if (first) this.#numbers.set(first, {});
    }
  }

  of({ chains }: Pick<Trajectory, "chains">): LearntNumbers | undefined {
    for (const chain of chains) {
      const numbers = this.#numbers.get(chain);
      if (numbers) return numbers;
    }
    return undefined;
  }

  /** Before the first pass. */
  begin(sequences: readonly ChainSequence[], advantages: readonly Advantages[]): void {
    sequences.forEach((sequence, i) => {
      const { ref, oldValues } = sequence;
      this.#add(sequence, {
        advantage: advantages[i]!.advantages,
        ...(ref && { reference: ref }),
        ...(oldValues && { value: oldValues }),
      });
    });
  }

  /** What a pass scored; the last one counts. */
  score(sequence: ChainSequence, { old, logprobs, entropy, values }: Scored): void {
    if (!this.#numbers.has(sequence.chains[0]!)) return;
    const ratio = logprobs.map((logprob, t) => Math.exp(logprob - old[t]!));
    this.#add(sequence, { ratio, ...(entropy && { entropy }), ...(values && { value: values }) });
  }

  /** An empty one for the same conversations: for passes that may turn out not to count. */
  apart(): LearntTokens {
    const apart = new LearntTokens([]);
    for (const chain of this.#numbers.keys()) apart.#numbers.set(chain, {});
    return apart;
  }

  take(from: LearntTokens): void {
    for (const [chain, numbers] of from.#numbers) Object.assign(this.#numbers.get(chain)!, numbers);
  }

  #add({ chains }: ChainSequence, numbers: LearntNumbers): void {
    const own = this.#numbers.get(chains[0]!);
    if (own) Object.assign(own, numbers);
  }
}
