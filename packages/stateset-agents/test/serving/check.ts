import { openPolicy } from "../../src/policy/open-policy.ts";
import type { Policy, Sample } from "../../src/policy/policy.ts";
import { askedBy, type Seen } from "./ask.ts";

/** Draws what clients were told again, without a server, and says where it was something else. */
export class Checker {
  readonly #policy: Policy;

  private constructor(policy: Policy) {
    this.#policy = policy;
  }

  static async open(model: string): Promise<Checker> {
    return new Checker(await openPolicy({ model, threads: 1 }));
  }

  /** What is wrong with what was seen; nothing, where all of it is right as far as it goes. */
  async wrong(all: readonly Seen[]): Promise<string[]> {
    const begun = all.filter(({ status }) => status === 200);
    const samples = await this.#policy.sample(begun.map(({ seed }) => this.#request(seed)));
    return begun.flatMap((seen, i) => this.#compare(seen, samples[i]!));
  }

  close(): Promise<void> {
    return this.#policy.close();
  }

  #request(seed: number) {
    const { messages, maxTokens } = askedBy(seed);
    return {
      tokens: this.#policy.tokenizer.extend(undefined, messages, { addGenerationPrompt: true }).tokens,
      sampling: {
        ...{ temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, maxTokens, stop: [], stopTokens: [] },
      },
      seed,
    };
  }

  #compare(seen: Seen, sample: Sample): string[] {
    const { seed, whole } = seen;
    const { tokens: prompt } = this.#request(seed);
    const tokens = [...sample.tokens];
    const same = (a: readonly number[], b: readonly number[]) => a.length === b.length && a.every((x, i) => x === b[i]);
    const wrong: string[] = [];
    if (seen.prompt.length > 0 && !same(seen.prompt, [...prompt])) wrong.push("another prompt");
    if (whole && seen.error === undefined) {
      if (!same(seen.tokens, tokens)) wrong.push("other tokens");
      if (seen.text !== sample.text)
        wrong.push(`the text ${JSON.stringify(seen.text)} for ${JSON.stringify(sample.text)}`);
      if (seen.finish !== (sample.finishReason === "length" ? "length" : "stop")) wrong.push(`finish ${seen.finish}`);
    } else {
      if (!same(seen.tokens, tokens.slice(0, seen.tokens.length))) wrong.push("tokens that it does not begin with");
      if (!sample.text.startsWith(seen.text)) wrong.push(`a beginning ${JSON.stringify(seen.text)} that it has not`);
    }
    return wrong.map((what) => `seed ${seed}: ${what}`);
  }
}
