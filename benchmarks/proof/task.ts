import { ConversationEnvironment, RewardFunction, type RewardInput, type RewardResult } from "stateset-agents";

/**
 * The task every algorithm is put to: the user says "low" or "high", the assistant answers with letters of that half of the alphabet,
 * over two turns. Checked by code. A model that does not listen gets ½ whatever it writes.
 */
const requests = [
  ["low", "low"],
  ["high", "high"],
  ["low", "high"],
  ["high", "low"],
];

export function letterEnvironment(): ConversationEnvironment {
  return new ConversationEnvironment({
    scenarios: requests.map((userResponses) => ({ id: userResponses.join("-"), userResponses })),
  });
}

/** The share of letters that lie in the half that was asked for, averaged over the replies; 0 for an empty reply. */
export class LetterReward extends RewardFunction {
  readonly sign: 1 | -1;

  constructor(sign: 1 | -1 = 1) {
    super({ name: "letters" });
    this.sign = sign;
  }

  override async compute({ turns }: RewardInput): Promise<RewardResult> {
    const shares: number[] = [];
    const byTurn: Record<number, number> = {};
    turns.forEach((turn, i) => {
      if (turn.role !== "assistant") return;
      const low = turns[i - 1]?.content === "low";
      const letters = turn.content.replace(/[^a-z]/g, "");
      const fitting = [...letters].filter((letter) => letter <= "m" === low).length;
      byTurn[i] = letters.length === 0 ? 0 : fitting / letters.length;
      shares.push(byTurn[i]!);
    });
    const share = shares.reduce((sum, value) => sum + value, 0) / Math.max(1, shares.length);
    return { score: this.sign * share, breakdown: { share } };
  }
}
