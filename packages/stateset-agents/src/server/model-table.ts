/** The models there are, by the names clients call them. Names lead here and nowhere else: no path is made of one. */
import { StatesetError } from "../error.ts";
import { didYouMean } from "../suggest.ts";
import { HttpError } from "./http-error.ts";
import type { Caller } from "./key/caller.ts";
import type { ServedModel } from "./served-model.ts";

export class ModelTable {
  readonly #models: ReadonlyMap<string, ServedModel>;

  constructor(models: readonly ServedModel[]) {
    this.#models = new Map(models.map((model) => [model.name, model]));
  }

  all(): ServedModel[] {
    return [...this.#models.values()];
  }

  /** For whoever runs the server. */
  named(name: string): ServedModel {
    const found = this.#models.get(name);
    if (found) return found;
    const hint = didYouMean(name, [...this.#models.keys()]);
    throw new StatesetError("INVALID_OPTION", `There is no model "${name}".`, { hint });
  }

  of({ models }: Caller): ServedModel[] {
    return this.all().filter(({ name }) => models === undefined || models.includes(name));
  }

  /** A model that the key may not use does not exist for it. */
  find(name: string, caller: Caller): ServedModel {
    const own = this.of(caller);
    const found = own.find((model) => model.name === name);
    if (found) return found;
    const names = own.map((model) => model.name);
    const shown = name.length > 80 ? `${name.slice(0, 80)}…` : name;
    throw new HttpError(404, `There is no model ${JSON.stringify(shown)}. ${didYouMean(name.slice(0, 200), names)}`, {
      ...{ code: "model_not_found", param: "model", type: "invalid_request_error" },
    });
  }
}
