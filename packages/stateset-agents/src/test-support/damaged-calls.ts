/** Replies as models make them that are learning to call: calls in a format, whole, damaged token by token, or cut off. */
import type { Random } from "../random.ts";
import type { CallFormat } from "../tool/format/call-format.ts";

const values = [
  1,
  -2.5,
  true,
  null,
  "4821",
  "größer 東京 🙂",
  "a\"b'c\\d\n",
  ["x", { y: [] }],
  "<tool_call>",
  "``` [TOOL_CALLS] |",
];
const words = ["", "", "", "", "", "", "One moment. ", "Ich sehe nach: ", "{ ", "```js\nlet a;\n```\n"];

/** One to three calls after some words or none, to a tool that there is or not. */
export function callText(format: CallFormat, random: Random): string {
  const one = <T>(from: readonly T[]) => from[random.below(from.length)]!;
  const calls = Array.from({ length: 1 + random.below(3) }, () => ({
    name: one(["get_order", "get_order", "cancel_order", "nothing"]),
    arguments: JSON.stringify(
      Object.fromEntries(["order_id", "note"].slice(random.below(3)).map((key) => [key, one(values)])),
    ),
  }));
  return one(words) + format.print(calls);
}

/** Some tokens replaced, left out, said twice, put in or swapped; none that ends a reply. */
export function damaged(
  tokens: ArrayLike<number>,
  random: Random,
  vocabSize: number,
  ends: readonly number[],
): number[] {
  const said = Array.from(tokens);
  const any = (): number => {
    const id = random.below(vocabSize);
    return ends.includes(id) ? any() : id;
  };
  for (let left = 1 + random.below(4); left > 0 && said.length > 1; left--) {
    const at = random.below(said.length);
    const other = random.below(said.length);
    const ways = [
      () => said.splice(at, 1, any()),
      () => said.splice(at, 1),
      () => said.splice(at, 0, said[at]!),
      () => said.splice(at, 0, any()),
      () => ([said[at], said[other]] = [said[other]!, said[at]!]),
    ];
    ways[random.below(ways.length)]!();
  }
  return said;
}
