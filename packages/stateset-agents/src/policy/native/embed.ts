import { onAbort, throwIfAborted } from "../../abort.ts";
import { StatesetError } from "../../error.ts";
import { allOrStop } from "../all-or-stop.ts";
import type { Policy } from "../policy.ts";
import type { NativeCore } from "./native-core.ts";

/** Texts take slots beside replies: each is run in pieces between decoding steps, so that a long one holds nobody up. */
export function createEmbed(core: NativeCore): Pick<Required<Policy>, "embed"> {
  const { model, config } = core.parts;
  const { vocab, maxPositions } = config.engine;

  const check = (tokens: Int32Array, index: number) => {
    const invalid = (what: string) => new StatesetError("INVALID_OPTION", `embed() text ${index}: ${what}`);
    if (tokens.length === 0) throw invalid("it is empty; it needs at least one token.");
    const unknown = tokens.find((token) => token < 0 || token >= vocab);
    if (unknown !== undefined) throw invalid(`token ${unknown} is not in the vocabulary of ${vocab}.`);
    if (tokens.length > maxPositions) {
      throw new StatesetError(
        "CONTEXT_OVERFLOW",
        `embed() text ${index} has ${tokens.length} tokens, and the context ${maxPositions}.`,
        { hint: "Split the text, or use a model with a longer context." },
      );
    }
  };

  return {
    embed: (texts, { signal } = {}) =>
      core.run(async () => {
        throwIfAborted(signal, "before embedding");
        texts.forEach(check);
        const running = texts.map((tokens) => model.embed(tokens));
        const stop = () => {
          for (const { cancel } of running) cancel();
        };
        const letGo = onAbort(signal, stop);
        const replies = running.map(({ reply }) => reply);
        try {
          const means = (await allOrStop(replies, stop)).map(({ mean }) => mean);
          // Also where the engine was done before it heard of it: who asks is told the same on every machine.
          throwIfAborted(signal, "while embedding");
          return means as Float32Array[];
        } finally {
          letGo();
        }
      }),
  };
}
