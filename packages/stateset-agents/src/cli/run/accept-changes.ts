import * as prompts from "@clack/prompts";
import { StatesetError } from "../../error.ts";
import { type Change, changesText } from "../../run/config.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, isInteractive } from "../io.ts";

/** What a resumed run would do otherwise without the command line having said so: the project changed meanwhile. */
export function unasked(changes: readonly Change[], given: { model?: string }): Change[] {
  return changes.filter(
    ({ path }) =>
      !path.startsWith("settings.") &&
      !path.startsWith("algorithm.") &&
      !(given.model !== undefined && path.startsWith("model.")),
  );
}

/** A person is asked; a script has to say that it means it. `otherwise` is what else can be done. */
export async function acceptChanges(
  changes: readonly Change[],
  given: { acceptChanges?: boolean; json?: boolean },
  io: CliIo,
  otherwise = "--name with it to split off a new run and leave the old one alone",
): Promise<void> {
  if (changes.length === 0 || given.acceptChanges) return;
  const text = changesText(changes);
  if (!isInteractive(io) || given.json) {
    throw new StatesetError("INVALID_OPTION", text, {
      hint: `Give --accept-changes to go on, or ${otherwise}.`,
    });
  }
  const answer = await prompts.confirm({ message: `${text} Go on?`, initialValue: false });
  if (prompts.isCancel(answer) || !answer) throw new CliExit(2, "The run was left as it is.");
}
