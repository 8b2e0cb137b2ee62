/** A real policy that says what a test wants it to: its tokens are given, their log-probs are what the policy gives them. */
import { buildTokenTree } from "../conversation/token-tree.ts";
import type { Policy, SampleRequest } from "../policy/policy.ts";
import { createTextStream } from "../policy/tokenizer/index.ts";

export interface Script {
  /** Control tokens in a text are sampled as such; the token that ends a reply follows, unless it is cut. */
  text: string | ArrayLike<number>;
  cut?: boolean;
}

/** `say` is asked for every reply, with the prompt it answers. */
export function scripted(policy: Policy, say: (request: SampleRequest) => Script): Policy {
  const sample: Policy["sample"] = async (requests, { onToken } = {}) =>
    Promise.all(
      requests.map(async (request, index) => {
        const { text, cut = false } = say(request);
        const spoken = typeof text === "string" ? policy.tokenizer.encode(text, { control: true }) : Array.from(text);
        const tokens = Int32Array.from(cut ? spoken : [...spoken, policy.model.endTokens[0]!]);
        const whole = Int32Array.from([...request.tokens, ...tokens]);
        const learn = Uint8Array.from(whole, (_, i) => (i >= request.tokens.length ? 1 : 0));
        const { tree, positions } = buildTokenTree([{ tokens: whole, learn }]);
        const temperature = request.sampling.temperature || 1;
        const { logprobs: all } = await policy.forward(tree, { grad: false, temperature });
        const logprobs = Float32Array.from(positions[0]!.slice(request.tokens.length), (place) => all[place]!);
        const stream = createTextStream((ids) => policy.tokenizer.decode(ids));
        for (const [i, token] of tokens.entries()) {
          const piece = stream.push(token);
          const text = i === tokens.length - 1 ? piece + stream.flush() : piece;
          onToken?.({ request: index, token, logprob: logprobs[i]!, text });
        }
        return {
          tokens,
          logprobs,
          text: policy.tokenizer.decode(tokens),
          finishReason: cut ? ("length" as const) : ("stop" as const),
          version: policy.version,
        };
      }),
    );
  return new Proxy(policy, {
    get(target, key) {
      if (key === "sample") return sample;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
