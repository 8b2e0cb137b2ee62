import { z } from "zod";
import { parseOptions } from "../../options.ts";
import type { Reply } from "./reply.ts";

const bytes = z.number().min(0);

/** More may come with it: what is not named here is not read. */
const schema = z.object({
  architecture: z.string(),
  parameters: z.int().min(0),
  trainableParameters: z.int().min(0),
  hiddenSize: z.int().min(1),
  layers: z.int().min(0),
  vocabSize: z.int().min(1),
  contextLength: z.int().min(1),
  digest: z.string().min(12),
  valueHead: z.boolean(),
  /** Changes of the weights so far. */
  count: z.int().min(0),
  /** Replies sampled together on one rank. */
  slots: z.int().min(1),
  capabilities: z.object({
    exact: z.boolean(),
    seeded: z.boolean(),
    entropy: z.boolean(),
    values: z.boolean(),
    hidden: z.boolean(),
    vectors: z.boolean(),
    loraPlus: z.boolean(),
    constrain: z.boolean(),
    promptLogprobs: z.boolean(),
    embed: z.boolean(),
  }),
  bytes: z.object({
    /** Of the whole model, which several ranks share. */
    weights: bytes,
    /** Of what training adds for what is trained: gradients, moments, master weights. Shared, too. */
    trainable: bytes,
    /** What a pass keeps for backward, for each of its tokens, and the same where blocks are computed again. */
    perToken: bytes,
    perTokenRecompute: bytes,
    /** What keys and values of the replies take at most on each rank: all slots as long as the context, or the share of its free memory that the worker gives them. */
    cache: bytes,
    free: bytes,
    total: bytes,
  }),
});

/** What the worker says of the model it opened. */
export type WorkerInfo = z.output<typeof schema>;

export function infoOf(reply: Reply): WorkerInfo {
  return parseOptions(schema, reply.fields.info, "what the PyTorch worker says of the model", "ENGINE_FAILED");
}
