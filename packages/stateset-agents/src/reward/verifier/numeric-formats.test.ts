/** How right and wrong answers are written, in more than two hundred ways. */
import { describe, expect, it } from "vitest";
import { NumericAnswerReward } from "./numeric-answer.ts";

/** Ways to write 42, and what they must not be taken for. */
const written = ["42", "**42**", "$42", "\\$42", "42.0", "42.", "`42`", "+42", "42 apples", "84/2", "4.2e1", "42%"];
const places: [name: string, around: (answer: string) => string][] = [
  ["GSM8K", (answer) => `6 × 7 = 42, after 3 tries\n#### ${answer}`],
  ["GSM8K, then a remark", (answer) => `#### ${answer}\nI checked it 2 times.`],
  ["boxed", (answer) => `So the result is \\boxed{${answer}} after 3 steps.`],
  ["boxed in display style", (answer) => `\\[ \\boxed{ ${answer} } \\] with 17 left over`],
  ["a tag", (answer) => `<think>maybe 7</think><answer>${answer}</answer> 9`],
  ["the answer is", (answer) => `With 3 boxes, the answer is ${answer}`],
  ["the answer is, because", (answer) => `The answer is ${answer} because 6 × 7 is what 6 boxes of 7 hold.`],
  ["final answer, a colon", (answer) => `**Final answer:** ${answer}\n\nThat took 3 steps.`],
  ["the next line", (answer) => `The answer is:\n\n${answer}\n\nLet me know if you have 2 more.`],
  ["an equation", (answer) => `The answer is 6 × 7 = ${answer}`],
  ["the end of a sentence", (answer) => `Six boxes of 7 make ${answer}`],
];

const right: [text: string, expected: string][] = [
  ["The answer is **42** because 6 × 7 is 42.", "42"],
  ["The answer is **42** because 6 × 7…", "42"],
  ["\\boxed{\\$42}", "42"],
  ["#### **42**", "42"],
  ["#### $1,234.50", "1234.5"],
  ["\\boxed{1{,}234}", "1234"],
  ["\\boxed{1\\,234}", "1234"],
  ["1\u202f234\u202f567 people", "1234567"],
  ["12,34,567 rupees", "1234567"],
  ["\\boxed{\\frac{3}{4}}", "0.75"],
  ["\\boxed{\\dfrac{1}{2}}", "1/2"],
  ["\\boxed{-\\frac{1}{2}}", "-0.5"],
  ["\\boxed{3\\frac{1}{2}}", "3.5"],
  ["\\boxed{42\\text{ dollars}}", "42"],
  ["\\boxed{\\text{42}}", "42"],
  ["\\boxed{x = 42}", "42"],
  ["\\boxed{4.2 \\times 10^{3}}", "4200"],
  ["\\boxed{50\\%}", "50"],
  ["first \\boxed{41}, no: \\boxed{42}", "42"],
  ["The answer is 3 1/2.", "3.5"],
  ["The answer is 3½ cups.", "3.5"],
  ["The answer is ½.", "0.5"],
  ["The answer is minus 5 degrees.", "-5"],
  ["The answer is negative 5.", "-5"],
  ["The answer is −5.", "-5"],
  ["The answer is -$5.", "-5"],
  ["The answer is $-5.", "-5"],
  ["The answer is US$42.", "42"],
  ["The answer is €42, that is 6 × €7.", "42"],
  ["The answer is ４２.", "42"],
  ["The answer is approximately 3.14.", "3.14"],
  ["The answer is ≈ 3.14", "3.14"],
  ["The answer is therefore 42.", "42"],
  ["The answer is simply **42 apples**.", "42"],
  ["The answer is x = 42.", "42"],
  ["The answer is 42 = 6 × 7.", "42"],
  ["The answer is 6*7=42.", "42"],
  ["The answer is 40 + 2 = 42.", "42"],
  ["The answer is 44 - 2 = 42.", "42"],
  ["The answer is 42, which is 6 more than 36.", "42"],
  ["The answer is the sum of 40 and 2, which is 42.", "42"],
  ["The answer is that Tom has 42 apples.", "42"],
  ["The answer is (42).", "42"],
  ["The answer is 42 (6 boxes of 7).", "42"],
  ["The answer is 42, not 41.", "42"],
  ["The answer is 42 out of 100.", "42"],
  ["The answer is 42; I tried 3 ways.", "42"],
  ["The answer is 42 since 7 = 6 + 1.", "42"],
  ["The answer is 42! It took 3 steps.", "42"],
  ["The answer is \\(42\\).", "42"],
  ["The answer is $42$.", "42"],
  ["The answer is $$42$$", "42"],
  ["The answer is: \\[42\\]", "42"],
  ["The answer is \\frac{84}{2}.", "42"],
  ["The answer is 41. Wait, the answer is 42.", "42"],
  ["Answer: 42", "42"],
  ["Answer = 42", "42"],
  ["**Answer**: 42", "42"],
  ["ANSWER: 42 KM", "42"],
  ["The answer would be 42.", "42"],
  ["The answer should be 42.", "42"],
  ["The answer was 42 all along, for 2 reasons.", "42"],
  ["It is 42, not 41.", "42"],
  ["H2O weighs 18", "18"],
  ["x2 = 42", "42"],
  ["42km", "42"],
  ["It takes 1e3 seconds", "1000"],
  ["it is .5", "0.5"],
  ["6 × 10^23", "6e23"],
  ["2.5 x 10^-3", "0.0025"],
  ["The answer is 1,000,000.", "1000000"],
  ["#### 1,234\n", "1234"],
  ["####42", "42"],
  ["####\n42", "42"],
];

const wrong: [text: string, expected: string][] = [
  ["", "42"],
  ["I do not know.", "42"],
  ["The answer is 41 or 42.", "42"],
  ["The answer is 42 or 41.", "42"],
  ["The answer is 41 and 42.", "42"],
  ["The answer is 40 to 42.", "42"],
  ["The answer is 42 to 45.", "42"],
  ["The answer is not 42.", "42"],
  ["It is not 42.", "42"],
  ["The answer is 41, not 42.", "42"],
  ["It is 41, not 42.", "42"],
  ["It is 41 instead of 42.", "42"],
  ["The answer is 41 because 42 is too much.", "42"],
  ["The answer is 6 × 7.", "7"],
  ["The answer is 6 × 7.", "6"],
  ["The answer is 35 + 7.", "7"],
  ["The answer is 49 - 7.", "49"],
  ["The answer is 41 = 42 - 1.", "42"],
  ["40, 41, 42, 43", "42"],
  ["1,2,3", "123"],
  ["1,2,3", "2"],
  ["42,1", "421"],
  ["The answer is 4.2.", "42"],
  ["The answer is 420.", "42"],
  ["The answer is 142.", "42"],
  ["The answer is -42.", "42"],
  ["The answer is 42e1.", "42"],
  ["The answer is 42/2.", "42"],
  ["The answer is 42 thousandths, 0.042.", "0.042"],
  ["\\boxed{41} since 42 is wrong", "42"],
  ["\\boxed{42}, no: \\boxed{41}", "42"],
  ["\\boxed{41, 42}", "42"],
  ["\\boxed{41 \\text{ or } 42}", "42"],
  ["\\boxed{\\text{none}} though 42 is near", "42"],
  ["\\boxed{} 42", "42"],
  ["\\boxed{\\frac{4}{2}}", "42"],
  ["\\boxed{42x}, that is 84", "84"],
  ["#### none\n42", "42"],
  ["#### 41\n42", "42"],
  ["42\n#### 41", "42"],
  ["<answer>41</answer> 42", "42"],
  ["<answer>unknown</answer> 42", "42"],
  ["x42", "42"],
  ["version 4.2.0 of 42b", "4.2"],
  ["The answer is 42. No, the answer is 41.", "42"],
  ["Answer: 41\nCheck: 42", "42"],
  ["3 1/2", "0.5"],
  ["3½", "0.5"],
];

const score = async (text: string, expected: string) => {
  const turns = [{ role: "assistant" as const, content: text }];
  return (await new NumericAnswerReward().compute({ turns, scenario: { id: "s", expected } })).score;
};

describe("NumericAnswerReward", () => {
  const grid = places.flatMap(([name, around]) => written.map((answer) => [name, around(answer)] as const));

  it("is tried on more than two hundred formats", () => {
    expect(grid.length + right.length + wrong.length).toBeGreaterThanOrEqual(200);
  });

  it.each(grid)("is right where the answer is at its place: %s, %j", async (_, text) => {
    expect(await score(text, "42")).toBe(1);
    expect(await score(text, "41")).toBe(0);
    // None of the other numbers of the text.
    for (const other of ["2", "3", "6", "7", "9", "17"]) expect(await score(text, other)).toBe(0);
  });

  it.each(right)("takes %j for %s", async (text, expected) => expect(await score(text, expected)).toBe(1));

  it.each(wrong)("does not take %j for %s", async (text, expected) => expect(await score(text, expected)).toBe(0));
});
