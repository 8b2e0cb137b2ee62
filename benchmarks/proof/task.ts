import { ConversationEnvironment, RewardFunction, type RewardInput, type RewardResult } from "stateset-agents";

/**
 * The task every algorithm is put to: the user says "low", "middle" or "high", the assistant answers with letters of that third of the
 * alphabet, over two turns. Checked by code. A model that does not listen has a third of its letters right, whatever it writes.
 */
const thirds: Readonly<Record<string, string>> = { low: "abcdefghi", middle: "jklmnopqr", high: "stuvwxyz" };
const requests = Object.keys(thirds).flatMap((first) => Object.keys(thirds).map((second) => [first, second]));

export const task = { thirds, scenarios: requests.length, replies: 2 };

export function letterEnvironment(): ConversationEnvironment {
  return new ConversationEnvironment({
    scenarios: requests.map((userResponses) => ({ id: userResponses.join("-"), userResponses })),
  });
}

/**
 * Each reply earns (right letters − wrong letters) / letters: 1 when all are right, −1 when none is or there is none. A conversation earns the
 * sum of its replies; what is reported is the share of right letters, from 0 to 1.
 */
export class LetterReward extends RewardFunction {
  readonly sign: 1 | -1;

  constructor(sign: 1 | -1 = 1) {
    super({ name: "letters" });
    this.sign = sign;
  }

  override async compute({ turns }: RewardInput): Promise<RewardResult> {
    const points = turns.flatMap((turn, i) => {
      if (turn.role !== "assistant") return [];
      const wanted = thirds[turns[i - 1]?.content ?? ""] ?? "";
      const letters = [...turn.content.replace(/[^a-z]/g, "")];
      const right = letters.filter((letter) => wanted.includes(letter)).length;
      return [(2 * right) / Math.max(1, letters.length) - 1];
    });
    const sum = points.reduce((total, value) => total + value, 0);
    return { score: this.sign * sum, breakdown: { share: this.shareOf(this.sign * sum) } };
  }

  /** The share of right letters of a conversation, or the mean share of several, by what they earned. */
  shareOf(score: number): number {
    return ((this.sign * score) / task.replies + 1) / 2;
  }
}
