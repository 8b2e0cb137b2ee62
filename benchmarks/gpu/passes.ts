/** Forward, a loss in TypeScript, backward: through the socket, as a run does it. */
import { performance } from "node:perf_hooks";
import { buildTokenTree, type TreeChain } from "../../packages/stateset-agents/src/conversation/token-tree.ts";
import type { StatesetError } from "../../packages/stateset-agents/src/error.ts";
import type { MicroBatch } from "../../packages/stateset-agents/src/learning/micro-batch.ts";
import { addGradients } from "../../packages/stateset-agents/src/learning/passes.ts";
import type { Forward, Policy } from "../../packages/stateset-agents/src/policy/policy.ts";
import { createRandom } from "../../packages/stateset-agents/src/random.ts";

export interface Work {
  /** Conversations, and how many of them share a beginning. */
  groups: number;
  replies: number;
  promptTokens: number;
  replyTokens: number;
}

/** Random conversations: prompts that are not learnt, replies that are. */
export function chainsOf({ groups, replies, promptTokens, replyTokens }: Work, vocab: number): TreeChain[] {
  const random = createRandom(7);
  const tokens = (count: number) => Int32Array.from({ length: count }, () => random.below(vocab));
  return Array.from({ length: groups }, () => tokens(promptTokens)).flatMap((prompt) =>
    Array.from({ length: replies }, () => {
      const reply = tokens(replyTokens);
      const all = new Int32Array(prompt.length + reply.length);
      all.set(prompt);
      all.set(reply, prompt.length);
      return { tokens: all, learn: Uint8Array.from(all, (_, i) => (i >= Math.max(1, prompt.length) ? 1 : 0)) };
    }),
  );
}

/** Conversations merged where they begin alike, or each in full. */
export function batchOf(chains: readonly TreeChain[], merged = true): MicroBatch {
  const tree = merged ? buildTokenTree(chains) : apart(chains);
  return { members: [...chains.keys()], merged: tree, temperature: 1, places: [] };
}

/** As if nothing were shared: each conversation is a root of its own. */
function apart(chains: readonly TreeChain[]): MicroBatch["merged"] {
  const trees = chains.map((chain) => buildTokenTree([chain]));
  const starts = [0];
  for (const { tokens } of chains) starts.push(starts.at(-1)! + tokens.length);
  const join = (of: (index: number) => ArrayLike<number>) => chains.flatMap((_, i) => Array.from(of(i)));
  return {
    tree: {
      tokens: Int32Array.from(join((i) => trees[i]!.tree.tokens)),
      nodeStart: Int32Array.from(starts),
      nodeParent: new Int32Array(chains.length).fill(-1),
      wanted: Uint8Array.from(join((i) => trees[i]!.tree.wanted)),
    },
    positions: [],
    predecessor: new Int32Array(),
  };
}

/** PPO's clipped loss with advantages of ±1, token by token: what most algorithms do to each token. */
function share(pass: Forward, old: Float32Array) {
  const { logprobs } = pass;
  const derivatives = new Float32Array(logprobs.length);
  let loss = 0;
  for (let t = 0; t < logprobs.length; t++) {
    if (logprobs[t] === 0) continue;
    const ratio = Math.exp(logprobs[t]! - old[t]!);
    const advantage = t % 2 ? 1 : -1;
    const clipped = Math.min(1.2, Math.max(0.8, ratio)) * advantage;
    const whole = ratio * advantage;
    loss -= Math.min(whole, clipped);
    derivatives[t] = whole <= clipped ? -whole / logprobs.length : 0;
  }
  return { loss, derivatives: { logprobs: derivatives } };
}

/** Seconds of one pass, in the middle of several. */
export async function passSeconds(policy: Policy, batch: MicroBatch, { repeat = 6, recompute = false } = {}) {
  let old: Float32Array | undefined;
  const run = (count: number) =>
    addGradients(policy, Array<MicroBatch>(count).fill(batch), { entropy: true, recompute }, (_, pass) => {
      old ??= pass.logprobs.slice();
      return share(pass, old);
    });
  // Programs are compiled in the first ones.
  const begun = performance.now();
  await run(2);
  const first = (performance.now() - begun) / 1000;
  const start = performance.now();
  await run(repeat);
  const seconds = (performance.now() - start) / 1000 / repeat;
  await policy.zeroGradients();
  return { seconds, first };
}

/** A pass that is too large for the GPU: what is said of it, and whether the worker goes on. */
export async function tooLarge(policy: Policy, vocab: number) {
  const chains = (groups: number) => chainsOf({ groups, replies: 1, promptTokens: 0, replyTokens: 8192 }, vocab);
  const told = await policy.forward(buildTokenTree(chains(64)).tree, { grad: true }).then(
    () => undefined,
    (error: StatesetError) => `${error.code}: ${error.message}`,
  );
  if (told === undefined) throw new Error("The pass was to be too large, and fits.");
  const after = await policy.forward(buildTokenTree(chains(1)).tree, { grad: false });
  return { told, goesOn: after.logprobs.every(Number.isFinite) };
}
