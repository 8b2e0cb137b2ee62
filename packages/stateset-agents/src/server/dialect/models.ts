/** GET /v1/models and /v1/models/:model. */
import type { Exchange } from "../exchange.ts";
import type { ServedModel } from "../served-model.ts";

function modelObject({ name, created, policy }: ServedModel) {
  const { model, version } = policy;
  return {
    ...{ id: name, object: "model", created, owned_by: "stateset" },
    ...{ version, max_model_len: model.contextLength, parameters: model.parameters },
    ...(model.stub && { stub: true }),
  };
}

export function listModels(exchange: Exchange): object {
  return { object: "list", data: exchange.models().map(modelObject) };
}

export function showModel(exchange: Exchange): object {
  return modelObject(exchange.model(exchange.params.model ?? ""));
}
