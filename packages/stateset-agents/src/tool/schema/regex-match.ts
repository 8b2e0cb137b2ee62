/** Runs a regular expression over a text in time proportional to its length: all places it could be in at once. */
import { type CharSet, parseRegex, type RegexNode } from "./regex-syntax.ts";
import { spend } from "./work.ts";

/** Instructions at most: `x{1000}` alone has a thousand. */
const mostInstructions = 20_000;

type Instruction =
  | { op: "char"; set: CharSet }
  /** Goes on at both. */
  | { op: "split"; to: [number, number] }
  | { op: "jump"; to: number }
  | { op: "assert"; what: "start" | "end" | "boundary" | "no-boundary" }
  | { op: "match" };

export interface LinearRegex {
  /** Whether it matches anywhere in the text. */
  test(text: string): boolean;
}

/** Throws a SyntaxError where the pattern is none, not supported, or too large. */
export function compileRegex(pattern: string): LinearRegex {
  const program: Instruction[] = [];
  emit(parseRegex(pattern), program);
  program.push({ op: "match" });
  return { test: (text) => matches(program, text) };
}

function push(program: Instruction[], instruction: Instruction): number {
  if (program.length >= mostInstructions) throw new SyntaxError("it is too large: its repetitions multiply");
  return program.push(instruction) - 1;
}

function emit(node: RegexNode, program: Instruction[]): void {
  switch (node.kind) {
    case "char":
      push(program, { op: "char", set: node.set });
      break;
    case "sequence":
      for (const part of node.parts) emit(part, program);
      break;
    case "choice":
      emitChoice(node.options, program);
      break;
    case "repeat":
      emitRepeat(node, program);
      break;
    case "boundary":
      push(program, { op: "assert", what: node.not ? "no-boundary" : "boundary" });
      break;
    default:
      push(program, { op: "assert", what: node.kind });
  }
}

function emitChoice(options: readonly RegexNode[], program: Instruction[]): void {
  const jumps: number[] = [];
  for (const option of options.slice(0, -1)) {
    const split = push(program, { op: "split", to: [program.length + 1, 0] });
    emit(option, program);
    jumps.push(push(program, { op: "jump", to: 0 }));
    program[split] = { op: "split", to: [split + 1, program.length] };
  }
  emit(options.at(-1)!, program);
  for (const jump of jumps) program[jump] = { op: "jump", to: program.length };
}

function emitRepeat({ part, min, max }: Extract<RegexNode, { kind: "repeat" }>, program: Instruction[]): void {
  for (let i = 0; i < min; i++) emit(part, program);
  if (max === Infinity) {
    const split = push(program, { op: "split", to: [0, 0] });
    emit(part, program);
    push(program, { op: "jump", to: split });
    program[split] = { op: "split", to: [split + 1, program.length] };
    return;
  }
  const splits: number[] = [];
  for (let i = min; i < max; i++) {
    splits.push(push(program, { op: "split", to: [0, 0] }));
    emit(part, program);
  }
  for (const split of splits) program[split] = { op: "split", to: [split + 1, program.length] };
}

function matches(program: readonly Instruction[], text: string): boolean {
  const points = Array.from(text, (char) => char.codePointAt(0)!);
  /** The step in which an instruction was added last: each is added once a step. */
  const added = new Int32Array(program.length).fill(-1);
  let current: number[] = [];
  let work = 0;
  for (let at = 0; at <= points.length; at++) {
    spend(work);
    work = 1;
    // A match may begin at any place.
    const here = [...current, 0];
    const next: number[] = [];
    while (here.length > 0) {
      const place = here.pop()!;
      if (added[place] === at) continue;
      added[place] = at;
      work++;
      const instruction = program[place]!;
      if (instruction.op === "match") return true;
      if (instruction.op === "jump") here.push(instruction.to);
      else if (instruction.op === "split") here.push(...instruction.to);
      else if (instruction.op === "assert") {
        if (holds(instruction.what, points, at)) here.push(place + 1);
      } else if (at < points.length && contains(instruction.set, points[at]!)) next.push(place + 1);
    }
    current = next;
  }
  return false;
}

function holds(what: Extract<Instruction, { op: "assert" }>["what"], points: readonly number[], at: number): boolean {
  if (what === "start") return at === 0;
  if (what === "end") return at === points.length;
  const differs = isWord(points[at - 1]) !== isWord(points[at]);
  return what === "boundary" ? differs : !differs;
}

function isWord(point: number | undefined): boolean {
  return point !== undefined && /\w/.test(String.fromCodePoint(point));
}

export function contains(set: CharSet, point: number): boolean {
  let [low, high] = [0, set.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const [from, to] = set[middle]!;
    if (point < from) high = middle - 1;
    else if (point > to) low = middle + 1;
    else return true;
  }
  return false;
}
