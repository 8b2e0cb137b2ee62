import { StatesetError } from "../../error.ts";

/** A keyword that no automaton of ours holds. It is named, since "valid by construction" must not be true of some keywords only. */
export function unsupported(keyword: string, where: string): StatesetError {
  return new StatesetError("INVALID_OPTION", `constrain cannot hold ${keyword} (${where}).`, {
    hint: "Leave it out of the schema and check it when the value is there. Arguments of tools are validated either way, with constrain and without.",
  });
}
