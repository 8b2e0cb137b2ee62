/** GET /v1/models and /v1/models/:model. */
import { z } from "zod";
import type { Exchange } from "../exchange.ts";
import type { ServedModel } from "../served-model.ts";

export const modelSchema = z.object({
  id: z.string(),
  object: z.literal("model"),
  created: z.int(),
  owned_by: z.string(),
  /** Of the weights that would answer now. */
  version: z.string(),
  max_model_len: z.int(),
  parameters: z.int(),
  stub: z.literal(true).optional(),
});

export const modelsSchema = z.object({ object: z.literal("list"), data: z.array(modelSchema) });

function modelObject({ name, created, policy }: ServedModel) {
  const { model, version } = policy;
  return {
    ...{ id: name, object: "model", created, owned_by: "stateset" },
    ...{ version, max_model_len: model.contextLength, parameters: model.parameters },
    ...(model.stub && { stub: true }),
  };
}

/** Those that answer: one whose engine failed must not hide the others. */
export function listModels(exchange: Exchange): object {
  const ready = exchange.models().filter(({ state }) => state === "ready");
  return { object: "list", data: ready.map(modelObject) };
}

export function showModel(exchange: Exchange): object {
  return modelObject(exchange.model(exchange.params.model ?? ""));
}
