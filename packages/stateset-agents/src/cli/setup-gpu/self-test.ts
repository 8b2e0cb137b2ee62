/** Whether the torch engine computes on this machine what the embedded one does: tried on the bundled model. */
import { throwIfAborted } from "../../abort.ts";
import { buildTokenTree } from "../../conversation/token-tree.ts";
import { StatesetError } from "../../error.ts";
import { openPolicy } from "../../policy/open-policy.ts";
import { defaultSampling, type Policy } from "../../policy/policy.ts";

export interface SelfTest {
  /** Tokens of the reply that was sampled. */
  sampled: number;
  /** Between the log-probs of both engines, at most. */
  difference: number;
  /** Mean log-prob of the reply before and after one step towards it. */
  before: number;
  after: number;
}

/** In f32: bf16 alone is further away than this. */
const tolerance = 1e-3;

export async function selfTest(
  options: { python: string; device: "cuda" | "cpu" },
  signal?: AbortSignal,
): Promise<SelfTest> {
  const torch = await openPolicy({ engine: "torch", torch: { ...options, dtype: "f32" } });
  try {
    throwIfAborted(signal, "before anything was tried");
    const native = await openPolicy({ threads: 1 });
    try {
      return await compare(torch, native);
    } finally {
      await native.close();
    }
  } finally {
    await torch.close();
  }
}

/** One reply, its scores by both, and a step after which the first finds it likelier. */
export async function compare(torch: Policy, native: Policy): Promise<SelfTest> {
  const question = [{ role: "user", content: "Where is my order?" }] as const;
  const { tokens } = torch.tokenizer.extend(undefined, question, { addGenerationPrompt: true });
  const sampling = { ...defaultSampling, maxTokens: 16 };
  const [reply] = await torch.sample([{ tokens, sampling, seed: 1 }]);
  const all = Int32Array.from([...tokens, ...reply!.tokens]);
  const learn = Uint8Array.from(all, (_, i) => (i >= tokens.length ? 1 : 0));
  const { tree } = buildTokenTree([{ tokens: all, learn }]);
  const own = (scores: Float32Array) => [...scores].filter((_, i) => tree.wanted[i]);
  const mean = (scores: Float32Array) => own(scores).reduce((sum, one) => sum + one, 0) / reply!.tokens.length;

  const pass = await torch.forward(tree);
  const expected = await native.forward(tree, { grad: false });
  const theirs = own(expected.logprobs);
  const apart = (scores: ArrayLike<number>) => Math.max(...theirs.map((one, i) => Math.abs(one - scores[i]!)));
  const difference = Math.max(apart(own(pass.logprobs)), apart(reply!.logprobs));
  // Not `>`: a difference that is no number is one, too.
  if (!(difference <= tolerance)) {
    throw failed(`its log-probs are ${difference} away from those of the embedded engine`);
  }
  const before = mean(pass.logprobs);
  const slope = Float32Array.from(tree.wanted, (wanted) => (wanted ? -1 / reply!.tokens.length : 0));
  await torch.backward(pass, { logprobs: slope });
  await torch.step({ learningRate: 1e-4 });
  const after = mean((await torch.forward(tree, { grad: false })).logprobs);
  if (!(after > before)) throw failed(`a step towards a reply left it as likely as it was (${before}, ${after})`);
  return { sampled: reply!.tokens.length, difference, before, after };
}

function failed(what: string): StatesetError {
  return new StatesetError("ENGINE_FAILED", `The torch engine does not compute what it should: ${what}.`, {
    hint: "Look at the versions that `npx stateset-agents doctor` prints, and please tell us.",
  });
}
