/**
 * The last step of word problems: a question of GSM8K's training file (MIT, (c) 2021 OpenAI) that takes two operations, with the first one
 * worked out. Read from a folder next to the checkout or from `--data FILE`. Split by a hash of their ids: tenths 0 and 1 are the test, 2 is for choosing settings, the rest is trained on.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Message, rewardFunction } from "stateset-agents";
import type { RealScenario } from "./task.ts";

export type MathPart = "training" | "tuning" | "heldOut";

interface Problem {
  id: string;
  question: string;
  answer: string;
  final: string;
}

/** Longer questions have mostly more conditions than a model of this size can follow. */
const longest = 200;
const number = String.raw`\d+(?:\.\d+)?`;

export function mathScenarios(part: MathPart, count: number, file?: string): RealScenario[] {
  return problems(file)
    .filter(({ id }) => partOf(id) === part)
    .slice(0, count)
    .map(({ id, question, answer, final }) => ({
      id,
      messages: examples,
      userResponses: [asked(question, answer.split("\n")[0]!.replace(/<<[^>]*>>/g, ""))],
      expected: final,
      metadata: {},
    }));
}

const asked = (question: string, first: string) => `${question}\nFirst step: ${first}`;

/** The model as it came writes at length and loses its way: it is shown how, with problems of this benchmark's own. */
const examples: readonly Message[] = (
  [
    [
      "A box holds 12 pens, and a pen costs $2. What do 5 boxes cost?",
      "5 boxes hold 12 * 5 = 60 pens.",
      "60 * 2 = 120. The answer is 120.",
    ],
    [
      "Lena had 31 stamps. She gave 14 to her brother and bought 6. How many does she have?",
      "After giving she has 31 - 14 = 17 stamps.",
      "17 + 6 = 23. The answer is 23.",
    ],
    [
      "A rope of 50 feet loses 2 feet and is cut into 6 equal parts. How long is each part?",
      "The rope has 50 - 2 = 48 feet.",
      "48 / 6 = 8. The answer is 8.",
    ],
  ] as const
).flatMap(([question, first, answer]): Message[] => [
  { role: "user", content: asked(question, first) },
  { role: "assistant", content: answer },
]);

/**
 * 1 for the right number. Of a wrong one 0.1 when it is marked as the answer, and 0.2 more when it is the result of an operation that is
 * written out, is true, and has no numbers but those of the question: what the model has to get to before it can be right.
 */
export const mathReward = rewardFunction({ name: "math" }, ({ turns, scenario }) => {
  const { userResponses, expected } = scenario as RealScenario;
  return mathScore(turns.at(-1)!.content, userResponses[0]!, expected!);
});

export function mathScore(reply: string, question: string, expected: string): number {
  const said = plain(reply).match(new RegExp(`The answer is (-?${number})\\D*$`))?.[1];
  if (said === undefined) return 0;
  if (Number(said) === Number(expected)) return 1;
  const written = numbersIn(question);
  const operations = [
    ...plain(reply).matchAll(new RegExp(`(${number}) ?([-+*/]) ?(${number}) ?= ?\\$?(${number})`, "g")),
  ];
  const founded = operations.some(
    ([, left, sign, right, result]) =>
      written.has(left!) &&
      written.has(right!) &&
      result === said &&
      isTrue(Number(left), sign!, Number(right), Number(result)),
  );
  return founded ? 0.3 : 0.1;
}

function isTrue(left: number, sign: string, right: number, result: number): boolean {
  const value = { "+": left + right, "-": left - right, "*": left * right, "/": left / right }[sign]!;
  return Math.abs(value - result) < 1e-6;
}

/** Without what stands before or between the digits of a number. */
const plain = (text: string) => text.replaceAll(/[$,]/g, "");
const numbersIn = (text: string) => new Set(plain(text).match(new RegExp(number, "g")));

function partOf(id: string): MathPart {
  const tenth = createHash("sha256").update(id).digest()[0]! % 10;
  return tenth < 2 ? "heldOut" : tenth === 2 ? "tuning" : "training";
}

function problems(file = besideCheckout): Problem[] {
  requireFile(file);
  const text = file.endsWith(".xz") ? unpacked(file) : readFileSync(file, "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Problem)
    .filter(isPlain);
}

const step = new RegExp(`<<(${number})[-+*/](${number})=(${number})>>`, "g");

/** Two lines with one operation each, on numbers that are written in the question or are the first line's result. */
function isPlain({ question, answer }: Problem): boolean {
  const lines = answer.split("\n");
  const marks = [...answer.matchAll(step)];
  if (question.length > longest || lines.length !== 3 || answer.split("<<").length !== 3 || marks.length !== 2)
    return false;
  const written = numbersIn(question);
  return marks.every(([, left, right, result]) => {
    const known = written.has(left!) && written.has(right!);
    written.add(result!);
    return known;
  });
}

const besideCheckout = fileURLToPath(new URL("../../../shared/data/math/gsm8k-train.jsonl.xz", import.meta.url));

function requireFile(file: string): void {
  if (existsSync(file)) return;
  throw new Error(
    `The math task reads GSM8K's training file, which is not at ${file}. Name it with --data FILE (JSONL with id, question, answer and final; plain or .xz), or leave the task out with --task json.`,
  );
}

function unpacked(file: string): string {
  const { status, stdout, stderr } = spawnSync("xz", ["-dc", file], { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`xz could not unpack ${file}: ${stderr || "is the xz command installed?"}`);
  return stdout;
}
