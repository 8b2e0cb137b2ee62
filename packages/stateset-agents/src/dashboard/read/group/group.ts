/** The conversations of one group (or pair), what each added to the gradient, and why. */
import type { GroupData, ProblemData } from "../../api/index.ts";
import { explainGroup } from "../explain/explain-group.ts";
import { groupKey, noGroup, parseGroupKey } from "../keys.ts";
import type { Library } from "../library.ts";
import { algorithmOf } from "../row.ts";
import { clippedTokens } from "../tokens/clip.ts";
import { type RowFacts, rowOfLine } from "../trajectories/row-facts.ts";
import { type Member, membersOf, ratioShift } from "./member.ts";
import { groupTree } from "./tree.ts";

export async function groupOf(library: Library, text: string): Promise<GroupData> {
  const { run, set, step } = parseGroupKey(text);
  const place = library.place(run);
  const file = library.stepFiles.file(place.dir, set, step);
  if (!file) throw noGroup(text);
  const problems: ProblemData[] = [...file.problems];
  const keyOf = (group: string | null) => (group === null ? null : groupKey({ run, set, step, group }));
  const keys = [...new Set(file.lines.flatMap(({ row }) => keyOf(row?.groupId ?? null) ?? []))];
  const at = keys.indexOf(text);
  if (at < 0) throw noGroup(text);
  const config = library.config(place.dir);
  const isOne = ({ groupId }: RowFacts) => keyOf(groupId) === text;
  const members = membersOf(library, place.dir, { set, step }, file, isOne, problems);
  const { spelling } = await library.tokenizers.of(place.dir, config);
  return {
    key: text,
    id: members[0]!.row.groupId!,
    run,
    step,
    scenario: members[0]!.row.scenario,
    algorithm: algorithmOf(config),
    previous: keys[at - 1] ?? null,
    next: keys[at + 1] ?? null,
    members: members.map((member) => ({
      ...rowOfLine(member.row, { run, set, step }, member.line),
      ...learntOf(member, members, config?.algorithm),
      messages: member.record.messages.map((message) => ({ ...message })),
    })),
    tree: groupTree(members, spelling),
    why: set === "training" ? explainGroup(config, members) : null,
    problems,
  };
}

/** Of its learn tokens: Σ advantage, and how many the clip holds back. */
function learntOf(
  { line, record, tokens }: Member,
  members: readonly Member[],
  algorithm: unknown,
): Pick<GroupData["members"][number], "advantage" | "learnTokens" | "clippedShare"> {
  const learnTokens = record.chains.reduce((sum, { learnLength }) => sum + learnLength, 0);
  const { advantage, ratio } = tokens?.learnt ?? {};
  const known = advantage?.filter((own) => !Number.isNaN(own)) ?? new Float32Array(0);
  if (known.length === 0) return { advantage: null, learnTokens, clippedShare: null };
  const sum = known.reduce((total, own) => total + own, 0);
  const shift = ratioShift(algorithm, members, line);
  const clipped = ratio && advantage && clippedTokens(algorithm, { ratio, advantage, shift });
  const scored = ratio?.reduce((total, own) => total + Number(!Number.isNaN(own)), 0) ?? 0;
  return {
    advantage: {
      sum,
      mean: sum / known.length,
      min: known.reduce((least, own) => Math.min(least, own)),
      max: known.reduce((most, own) => Math.max(most, own)),
    },
    learnTokens,
    clippedShare: clipped && scored > 0 ? clipped.reduce((total, own) => total + own, 0) / scored : null,
  };
}
