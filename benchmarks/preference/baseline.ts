/** What a reward model must beat: logistic regression on the reply's length alone, and on its bag of words. */
import { createRandom } from "stateset-agents";
import type { Row } from "./taskmaster.ts";

export type Features = (row: Row) => Map<string, number>;

export const lengthOnly: Features = (row) => {
  const reply = textOf(row).length;
  return new Map([
    ["one", 1],
    ["length", reply / 100],
    ["log", Math.log1p(reply)],
    ["turns", row.context.length / 10],
  ]);
};

export const bagOfWords: Features = (row) => {
  const features = new Map([["one", 1]]);
  const add = (prefix: string, text: string) => {
    for (const word of text.toLowerCase().match(/[a-z0-9_.]+/g) ?? []) features.set(`${prefix}:${word}`, 1);
  };
  add("reply", textOf(row));
  add("user", row.context.findLast((message) => message.role === "user")?.content ?? "");
  return features;
};

function textOf({ reply }: Row): string {
  return [
    reply.content,
    ...(reply.tool_calls ?? []).map((call) => `${call.function.name} ${call.function.arguments}`),
  ].join(" ");
}

/** Trained by AdaGrad with L2; returns the probability of "good" for any row. */
export function logisticRegression(rows: readonly Row[], features: Features, seed = 0): (row: Row) => number {
  const weights = new Map<string, number>();
  const squares = new Map<string, number>();
  const data = rows.map((row) => ({ x: features(row), y: row.good ? 1 : 0 }));
  const score = (x: Map<string, number>) => {
    let sum = 0;
    for (const [name, value] of x) sum += (weights.get(name) ?? 0) * value;
    return 1 / (1 + Math.exp(-sum));
  };
  const random = createRandom(seed);
  for (let epoch = 0; epoch < 20; epoch++) {
    for (const { x, y } of random.shuffled(data)) {
      const error = score(x) - y;
      for (const [name, value] of x) {
        const weight = weights.get(name) ?? 0;
        const gradient = error * value + 1e-4 * weight;
        const square = (squares.get(name) ?? 1e-8) + gradient ** 2;
        squares.set(name, square);
        weights.set(name, weight - (0.1 * gradient) / Math.sqrt(square));
      }
    }
  }
  return (row) => score(features(row));
}
