/** Learners from data have no advantages: what pushes a token is the derivative of its example's loss. */
import type { Member } from "../group/member.ts";
import { type JsonObject, numberAt } from "../json-file.ts";
import { type Explained, show } from "./why.ts";

const formulas: Readonly<Record<string, string>> = {
  dpo: "loss = −log σ(β·h),  h = Σ(log π − log π_ref) of the chosen − Σ(log π − log π_ref) of the rejected",
  robust:
    "loss = [−(1−ε)·log σ(β·h) + ε·log σ(−β·h)] / (1−2ε),  h = Σ(log π − log π_ref) of the chosen − that of the rejected",
  hinge: "loss = max(0, 1 − β·h),  h = Σ(log π − log π_ref) of the chosen − Σ(log π − log π_ref) of the rejected",
  ipo: "loss = (h − 1/(2β))²,  h = mean(log π − log π_ref) of the chosen − that of the rejected",
  orpo: "loss = −l_w − β·log σ(logit(l_w) − logit(l_l)),  l = mean log π of a reply's tokens",
  kto: "loss = w·(1 − σ(±β·(r − z))),  r = Σ(log π − log π_ref),  z = the KL of policy to reference",
  sft: "loss = −Σ log π over the assistant's tokens / their number in the batch",
  "reward-model": "loss = −log σ(r_chosen − r_rejected),  r = the scalar head at the last token",
  "value-function": "loss = ½(V − R)² on each token",
};

export function explainData(learner: string, config: JsonObject, members: readonly Member[]): Explained | undefined {
  const formula = formulas[learner];
  if (formula === undefined) return undefined;
  const beta = numberAt(config, "settings", "beta");
  const ratios = members.map(logRatio);
  const mean = learner === "ipo";
  const [chosen, rejected] = (["chosen", "rejected"] as const).map((side) => {
    const at = members.findIndex(({ row }) => row.side === side);
    return at < 0 ? undefined : mean ? ratios[at]?.mean : ratios[at]?.sum;
  });
  const lines = beta === null ? [] : [`β = ${show(beta)}`];
  const paired = ["dpo", "robust", "hinge", "ipo"].includes(learner);
  if (paired && chosen !== undefined && rejected !== undefined) {
    const margin = chosen - rejected;
    lines.push(`h = ${show(chosen)} − ${rejected < 0 ? `(${show(rejected)})` : show(rejected)} = ${show(margin)}`);
    if (beta !== null && learner === "dpo") {
      const x = beta * margin;
      lines.push(`σ(β·h) = ${show(1 / (1 + Math.exp(-x)))}`);
    }
  }
  return {
    formula,
    lines,
    members: members.map((member, i) => memberText(member, ratios[i], learner)),
    note:
      "There is no advantage here: the column of that name holds −∂loss/∂log π of each token, which is what pushes it." +
      (paired && chosen === undefined
        ? " The log-probs of this pair were not recorded, so its numbers cannot be filled in."
        : ""),
  };
}

/** Σ(log π − log π_ref) over what is learnt; without a reference Σ log π. */
function logRatio({ tokens }: Member): { sum: number; mean: number; against: boolean } | undefined {
  if (!tokens) return undefined;
  const { reference } = tokens.learnt;
  let [sum, count] = [0, 0];
  for (let i = 0; i < tokens.tokens.length; i++) {
    if (tokens.learn[i] !== 1 || tokens.starts.includes(i)) continue;
    sum += tokens.logprobs[i]! - (reference?.[i] ?? 0);
    count++;
  }
  return count === 0 || Number.isNaN(sum) ? undefined : { sum, mean: sum / count, against: reference !== undefined };
}

function memberText({ row, record }: Member, ratio: ReturnType<typeof logRatio>, learner: string): string {
  const side = row.side ?? "example";
  const score = (record.metadata as { score?: unknown } | undefined)?.score;
  if (learner === "reward-model" && typeof score === "number") return `${side}: r = ${show(score)}`;
  if (!ratio) return side;
  return `${side}: ${ratio.against ? "Σ(log π − log π_ref)" : "Σ log π"} = ${show(ratio.sum)}, mean ${show(ratio.mean)}`;
}
