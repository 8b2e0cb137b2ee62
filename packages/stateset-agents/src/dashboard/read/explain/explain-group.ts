/** "Why this advantage": the formula of a run's algorithm, filled in with the numbers of one group. */
import type { Scale } from "../../../algorithm/advantage/group.ts";
import type { GroupData } from "../../api/index.ts";
import type { Member } from "../group/member.ts";
import { at, isObject, type JsonObject, numberAt } from "../json-file.ts";
import { explainData } from "./by-data.ts";
import { explainBaseline, explainLeaveOneOut, explainRelative } from "./by-group.ts";
import { explainParts, explainStates, explainTurns } from "./by-reply.ts";
import { explainReturns, explainValues } from "./by-token.ts";
import { type Compared, comparedOf, recordedAdvantage, shapeRewards } from "./compared.ts";
import { type Explained, show } from "./why.ts";

/** Null where nothing is known of how the run learns. */
export function explainGroup(config: JsonObject | undefined, members: readonly Member[]): GroupData["why"] {
  if (!config) return null;
  const learner = typeof config.learner === "string" ? config.learner : "";
  if (learner !== "rl") {
    const explained = explainData(learner, config, members);
    return explained ? answer(explained, members, (i) => explained.members[i]!) : null;
  }
  if (!isObject(config.algorithm)) return null;
  const compared = comparedOf(members);
  if (compared.length === 0) return null;
  const { lines, whole } = shapeRewards(compared, config);
  const explained = explainAdvantage(config.algorithm, compared);
  if (!explained) return null;
  const { advantages: _, ...rest } = explained;
  const own: Explained = whole ? rest : explained;
  const notes = [own.note, refusal(members), mismatch(own, compared, config)].filter((note) => note !== undefined);
  const places = new Map(compared.map(({ member }, i) => [member, i]));
  const told: Explained = {
    ...own,
    lines: [...lines, ...own.lines],
    ...(notes.length > 0 && { note: notes.join(" ") }),
  };
  return answer(told, members, (i) => {
    const place = places.get(members[i]!);
    return place === undefined ? "not compared: it was lost, or has no reward" : own.members[place]!;
  });
}

/** By the algorithm's own options. Undefined for one that this version does not know. */
function explainAdvantage(algorithm: JsonObject, compared: readonly Compared[]): Explained | undefined {
  const beta = algorithm.klIn === "reward" ? (numberAt(algorithm, "beta") ?? 0) : 0;
  switch (algorithm.algorithm) {
    case "rloo":
      return explainLeaveOneOut(compared, beta);
    case "reinforce":
      return explainBaseline(compared, String(algorithm.baseline ?? "batch"), beta);
    case "reinforce++":
      return explainReturns(compared, algorithm);
    case "ppo":
    case "a2c":
    case "vapo":
      return explainValues(compared, algorithm);
  }
  const scale = algorithm.scale as Scale | undefined;
  if (scale !== "group" && scale !== "batch" && scale !== "none") return undefined;
  if (isObject(algorithm.rewardWeights))
    return explainParts(compared, algorithm.rewardWeights as Record<string, number>);
  if (algorithm.credit === "turn") return explainTurns(compared, { scale, beta });
  if (algorithm.credit === "state") {
    const weight = numberAt(algorithm, "stateWeight") ?? 1;
    return explainStates(compared, { scale, beta, weight, discount: numberAt(algorithm, "stateDiscount") ?? 0.95 });
  }
  return explainRelative(compared, { scale, beta });
}

function answer(explained: Explained, members: readonly Member[], text: (i: number) => string): GroupData["why"] {
  const { formula, lines, note } = explained;
  return { formula, lines, members: members.map((_, i) => text(i)), note: note ?? null };
}

function refusal(members: readonly Member[]): string | undefined {
  const [left] = members.map(({ row }) => row.leftOut).filter((why) => why === "refused" || why === "dropped");
  if (left === "refused")
    return "The algorithm refused this group, and had another sampled in its place: nothing was learnt from it.";
  return left === "dropped"
    ? "Too few conversations of this group came through: nothing was learnt from it."
    : undefined;
}

/** What was recorded is the truth: where the formula gives something else, that is said. */
function mismatch({ advantages }: Explained, compared: readonly Compared[], config: JsonObject): string | undefined {
  let most = 0;
  advantages?.forEach((computed, i) => {
    const recorded = recordedAdvantage(compared[i]!.member);
    if (recorded.length !== computed.length) return;
    recorded.forEach((own, t) => {
      // A token that is kept from learning has 0, whatever its conversation's advantage.
      if (own === 0 && at(config, "settings", "entropyQuantile") !== undefined) return;
      most = Math.max(most, Math.abs(own - computed[t]!) / (1 + Math.abs(own)));
    });
  });
  if (most < 1e-5) return undefined;
  return `The advantages that were recorded differ from this by up to ${show(most)}: the group was compared with more than is written here (a remembered conversation that joined it, or rewards that were shaped by the whole step).`;
}
