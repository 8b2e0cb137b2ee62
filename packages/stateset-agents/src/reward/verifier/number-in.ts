/**
 * The number that a text gives as its answer. The place marked as the answer is read first, and within it the number that is said to be
 * the answer: not the last number that happens to stand there.
 */

/** Thousands by commas (1,234,567 and 12,34,567) or by spaces that do not break; not "1,2,3", which is a list. */
const digits = String.raw`(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+|\d+)(?![\d])(?:\.\d+)?|\.\d+`;
const power = String.raw`(?:e[-+]?\d+|\s*[×x*·]\s*10\s*\^\s*\(?[-+]?\d+\)?)?`;
const fraction = String.raw`(?:\s*/\s*\d+(?:\.\d+)?|\s+\d+/\d+)?`;
const sign = String.raw`(?:(?:minus|negative)\s+|[-+])?`;
const number = String.raw`(?<![\p{L}\p{N}_.]|\d,|[\p{L}\d)]-)${sign}(?:(?:[a-z]{2})?[$€£¥]\s?)?[-+]?(?:${digits})${power}${fraction}`;
const numbers = () => new RegExp(number, "giu");

const marks: readonly { pattern: RegExp; decides: boolean }[] = [
  // GSM8K, MATH, tags: whoever writes these means it, so that one without a number is no answer.
  { pattern: /####[^\S\n]*\n?/g, decides: true },
  { pattern: /\\boxed\s*\{/g, decides: true },
  { pattern: /<answer>/gi, decides: true },
  {
    pattern: /\banswers?\b[*_`"']*\s*(?:[:=]|(?:is|was|be|equals|comes to|would be|should be|must be)\b)/gi,
    decides: false,
  },
];

/** Understands 1,234.5, $12, 3/4, 3 1/2, 4.2 × 10^3, −2, and LaTeX of these. Undefined: none, or one among several guesses. */
export function numberIn(text: string): number | undefined {
  for (const { pattern, decides } of marks) {
    const mark = [...text.matchAll(pattern)].at(-1);
    if (!mark) continue;
    const rest = text.slice(mark.index + mark[0].length);
    const place = plain(mark[0].includes("boxed") ? untilBrace(rest) : rest.split(/<\/answer>/i)[0]!);
    const found = answerIn(decides && !mark[0].includes("answer") ? place.split("\n")[0]! : place);
    if (found !== "none" || decides) return typeof found === "number" ? found : undefined;
  }
  return numbersOf(plain(text)).at(-1)?.value;
}

interface Found {
  value: number;
  start: number;
  end: number;
}

/** Every number of a text, but for those it says are not it: "42, not 41". */
function numbersOf(text: string): Found[] {
  return [...text.matchAll(numbers())]
    .filter(({ index }) => !/\b(?:not|never|isn't|instead of|rather than)\s+(?:\S{0,2})$/i.test(text.slice(0, index)))
    .map(({ 0: said, index }) => ({ value: parsed(said), start: index, end: index + said.length }));
}

const hedge = /^[\s*_`"',]*(?:or|and|to|through|–|—)[\s*_`"'$€£]*$/i;
const operator = /^[\s*_`"'()$]*(?:[×x*·÷^/+-]|plus|minus|times|divided by)[\s*_`"'()$€£]*$/i;
const direct =
  /^(?:[^\p{L}\p{N}=]|\b(?:about|approximately|approx|roughly|around|exactly|simply|just|therefore|thus|hence|then|so|only|equal to|a total of)\b)*$/iu;

/** What stands after a mark: a number, "none" where there is none, "unclear" where there are several and none is the answer. */
function answerIn(place: string): number | "none" | "unclear" {
  const first = numbersOf(place)[0];
  if (!first) return numbers().test(place) ? "unclear" : "none";
  // The sentence that holds the first number; what explains it is not read.
  const sentence = place.slice(0, first.end) + place.slice(first.end).split(/[.!?](?=\s|$)|\n|;/)[0]!;
  const clause = sentence.slice(0, first.end) + sentence.slice(first.end).split(/\b(?:because|since|as|so)\b/i)[0]!;
  const all = numbersOf(clause);
  const [second] = all.slice(1);
  const between = second ? clause.slice(first.end, second.start) : "";
  const stated = direct.test(clause.slice(0, first.start));
  if (stated && second && hedge.test(between)) return "unclear";
  const equation =
    /[=≈]/.test(clause.slice(first.end)) &&
    (/^[^\p{L}]*[=≈]/u.test(clause.slice(first.end)) || isOperation(clause, all));
  if (stated && !equation) return second && isOperator(clause, first, second) ? "unclear" : first.value;
  if (all.length === 1) return first.value;
  // "6 × 7 = 42", "x = 42", "the sum of 40 and 2, which is 42": the last side that is one number.
  const sides = clause.split(/[=≈]|\b(?:is|are|equals|gives|makes|get|have|has)\b|:/i).map(numbersOf);
  return sides.findLast((side) => side.length === 1)?.at(0)?.value ?? "unclear";
}

/** "6 × 7", and "6 -7", whose minus sign was read as the second number's own. */
function isOperator(text: string, a: Found, b: Found): boolean {
  return operator.test(text.slice(a.end, b.start)) || (b.start - a.end <= 1 && /^[-+]/.test(text.slice(b.start)));
}

function isOperation(text: string, [a, b]: readonly Found[]): boolean {
  return a !== undefined && b !== undefined && isOperator(text, a, b);
}

function parsed(said: string): number {
  const bare = said
    .toLowerCase()
    .replace(/minus|negative/, "-")
    .replace(/[a-df-z]{2}(?=[$€£¥])|[$€£¥,\u00a0\u2009\u202f]/g, "")
    .replace(/\s*[×x*·]\s*10\s*\^\s*\(?([-+]?\d+)\)?/, "e$1")
    .trim();
  const mixed = /^(-?)\s*(\d+)\s+(\d+)\/(\d+)$/.exec(bare);
  if (mixed) return (mixed[1] ? -1 : 1) * (Number(mixed[2]) + Number(mixed[3]) / Number(mixed[4]));
  const [top, bottom] = bare.replace(/\s/g, "").split("/").map(Number);
  return bottom === undefined ? top! : top! / bottom;
}

const vulgar: Readonly<Record<string, string>> = {
  "½": "1/2",
  "⅓": "1/3",
  "⅔": "2/3",
  "¼": "1/4",
  "¾": "3/4",
  "⅕": "1/5",
  "⅛": "1/8",
};

/** Without the LaTeX and the typography around numbers. */
function plain(text: string): string {
  return text
    .replace(/[\uff10-\uff19]/g, (digit) => String.fromCharCode(digit.charCodeAt(0) - 0xfee0))
    .replace(/[½⅓⅔¼¾⅕⅛]/g, (sign) => ` ${vulgar[sign]} `)
    .replace(/[−–](?=[\d$€£.])/g, "-")
    .replace(/(-?)\s*\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}/g, " $1$2/$3 ")
    .replace(/\\(?:text|mathrm|mathbf|textbf|mbox|boxed)\s*\{([^{}]*)\}/g, " $1 ")
    .replace(/\{,\}/g, ",")
    .replace(/\\([$%#&])/g, "$1")
    .replace(/\\[,;:! ]/g, "")
    .replace(/\\(?:times|cdot)\b/g, "×")
    .replace(/\\approx\b/g, "≈")
    .replace(/\\(?:left|right|displaystyle|quad)\b|\\[()[\]]/g, " ")
    .replace(/\^\s*\{([^{}]*)\}/g, "^$1");
}

/** What stands before the brace that closes the one before `text`. */
function untilBrace(text: string): string {
  let open = 1;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "{") open++;
    if (text[i] === "}" && --open === 0) return text.slice(0, i);
  }
  return text;
}
