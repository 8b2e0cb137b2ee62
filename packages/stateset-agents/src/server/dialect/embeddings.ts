/** POST /v1/embeddings: the mean of a text's final hidden states. */
import { z } from "zod";
import { priorities } from "../admission/admission.ts";
import type { Exchange } from "../exchange.ts";
import { readFields } from "../read-fields.ts";
import { waitForTurn } from "../turn.ts";
import { readTexts, requireFits, textsSchema } from "./foreign-tokens.ts";
import { refused } from "./refused.ts";
import { samplingFields } from "./sampling-fields.ts";

/** OpenAI's. */
const mostTexts = 2048;
/** Texts that are worked on at once: each takes a slot of the engine. */
const together = 8;

export const embeddingsRequestSchema = z.strictObject({
  model: z.string().min(1),
  input: textsSchema(mostTexts),
  encoding_format: z.enum(["float", "base64"]).optional(),
  /** Those of the model, or left out. */
  dimensions: z.int().min(1).optional(),
  /** Begin texts as the model's texts begin, as vLLM names it. Default true. */
  add_special_tokens: z.boolean().optional(),
  /** Default "batch". */
  priority: z.enum(priorities).optional(),
  deadline: samplingFields.deadline,
});

/** Fields of OpenAI's that have no effect here. */
export const ignoredEmbeddingsFields = ["user"];

export const embeddingsSchema = z.object({
  object: z.literal("list"),
  data: z.array(
    z.object({
      object: z.literal("embedding"),
      index: z.int(),
      /** In base64: 32-bit floats, the lowest byte first. */
      embedding: z.union([z.array(z.number()), z.string()]),
    }),
  ),
  model: z.string(),
  usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
});

export async function answerEmbeddings(exchange: Exchange): Promise<z.output<typeof embeddingsSchema>> {
  const { body, ignored, measure } = exchange;
  const request = readFields(embeddingsRequestSchema, body, { known: ignoredEmbeddingsFields, ignored });
  const model = exchange.model(request.model);
  const { policy } = model;
  const { capabilities, model: info } = policy;
  if (!capabilities.embed) throw refused("model", `names ${model.name}, whose engine embeds nothing.`);
  if (request.dimensions !== undefined && request.dimensions !== info.hiddenSize) {
    throw refused("dimensions", `must be ${info.hiddenSize}: this model's embeddings have no other length.`);
  }
  const bos = request.add_special_tokens ?? true;
  const texts = await readTexts(request.input, { policy, bos, param: "input" });
  if ([request.input].flat().includes("")) throw refused("input", "holds an empty text.");
  for (const { tokens } of texts) {
    if (tokens.length === 0) throw refused("input", "holds an empty text.");
    requireFits(tokens.length, info.contextLength, { room: 0, param: "input" });
  }
  const tokens = texts.reduce((sum, one) => sum + one.tokens.length, 0);
  const turn = await waitForTurn(
    {
      model,
      tokens,
      slots: Math.min(texts.length, together),
      priority: request.priority ?? "batch",
      deadlineMs: request.deadline,
    },
    exchange,
  );
  measure.promptTokens = tokens;
  const vectors = await turn(async (policy, signal) => {
    measure.version = policy.version;
    const made: Float32Array[] = [];
    for (let from = 0; from < texts.length; from += together) {
      const some = texts.slice(from, from + together).map((one) => one.tokens);
      made.push(...(await policy.embed!(some, { signal })));
    }
    return made;
  });
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      ...{ object: "embedding", index },
      embedding: request.encoding_format === "base64" ? inBase64(vector) : [...vector],
    })),
    model: model.name,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

function inBase64(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [i, value] of vector.entries()) bytes.writeFloatLE(value, i * 4);
  return bytes.toString("base64");
}
