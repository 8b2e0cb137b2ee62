/** A conversation of a group, with its tokens where these were kept. */
import { mean } from "../../../algorithm/advantage/batch.ts";
import { withGroupExpectation } from "../../../algorithm/loss/gepo.ts";
import type { ConversationRecord } from "../../../conversation/record.ts";
import { messageOf } from "../../../error.ts";
import { trajectoryFiles } from "../../../run/trajectories.ts";
import type { ProblemData } from "../../api/index.ts";
import { comparedOf } from "../explain/compared.ts";
import { stringAt } from "../json-file.ts";
import type { StepKey } from "../keys.ts";
import type { Library } from "../library.ts";
import type { ConversationTokens } from "../tokens/token-files.ts";
import type { RowFacts } from "../trajectories/row-facts.ts";
import type { StepFile } from "../trajectories/step-files.ts";

export interface Member {
  line: number;
  row: RowFacts;
  record: ConversationRecord;
  tokens: ConversationTokens | undefined;
}

/** Those of one group of a step. Tokens that cannot be read are a problem, and the rest is there. */
export function membersOf(
  library: Library,
  dir: string,
  { set, step }: Pick<StepKey, "set" | "step">,
  file: StepFile,
  isOne: (row: RowFacts) => boolean,
  problems: ProblemData[],
): Member[] {
  return file.lines.flatMap(({ row }, line): Member[] => {
    if (!row || !isOne(row)) return [];
    const record = library.stepFiles.record(file, line);
    let tokens: ConversationTokens | undefined;
    try {
      if (set === "training") tokens = library.tokenFiles.of(trajectoryFiles(dir, step).bin, record);
    } catch (error) {
      problems.push({ where: record.id, message: messageOf(error) });
    }
    return [{ line, row, record, tokens }];
  });
}

/**
 * GEPO divides the probability of a conversation not by what it was, but by what its group's was on the whole (algorithm/loss/gepo.ts):
 * by how much the logarithm of its ratio is more than the mean of its tokens'. 0 for other algorithms; undefined where it is not known.
 */
export function ratioShift(algorithm: unknown, members: readonly Member[], line: number): number | undefined {
  if (stringAt(algorithm, "algorithm") !== "gepo") return 0;
  const compared = comparedOf(members);
  const at = compared.findIndex(({ member }) => member.line === line);
  if (at < 0 || compared.some(({ member }) => !member.tokens)) return undefined;
  const sequences = compared.map(({ sequence }) => sequence);
  const [own] = withGroupExpectation(
    sequences,
    sequences.map(({ old }) => ({ advantages: old })),
  ).slice(at);
  return mean(sequences[at]!.old) - own!.context!.logExpectation!;
}
