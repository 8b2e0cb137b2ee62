/**
 * `npm run bench:data`: time and peak of memory for many scenarios as JSONL, JSON and YAML, for a file of chats read one by one, and until
 * train() and trainSupervised() take their first step. Each is measured in a process of its own.
 * --count N (scenarios and chats, default 100,000), --json (last line: the rows), --no-write.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createRandom } from "stateset-agents";
import { describeMachine } from "../machine.ts";

const { values: flags } = parseArgs({
  options: {
    count: { type: "string", default: "100000" },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const count = Number(flags.count);
const random = createRandom(1);
const words =
  "the order was late and I would like to know where my refund is please thanks for your help with this card".split(
    " ",
  );
const say = () => Array.from({ length: 12 }, () => words[random.below(words.length)]!).join(" ");

const scenarios = Array.from({ length: count }, (_, i) => ({ id: `order-${i}`, userResponses: [say(), say(), say()] }));
const chats = Array.from({ length: count }, () => [
  { role: "user", content: say() },
  { role: "assistant", content: say() },
]);
const lines = (list: readonly unknown[]) => `${list.map((one) => JSON.stringify(one)).join("\n")}\n`;
const yaml = ({ id, userResponses }: (typeof scenarios)[number]) =>
  `- id: ${id}\n  userResponses:\n${userResponses.map((text) => `    - ${text}\n`).join("")}`;

interface Row {
  what: string;
  file: string;
  fileMiB: number;
  count: number;
  seconds: number;
  cpuSeconds: number;
  /** Of the process before it begins, and the most it had. */
  emptyMiB: number;
  peakMiB: number;
}

const dir = mkdtempSync(join(tmpdir(), "bench-data-"));
const rows: Row[] = [];
const own = fileURLToPath(new URL("case.mjs", import.meta.url));

function measure(what: string, name: string, text: () => string): void {
  const path = join(dir, name);
  writeFileSync(path, text());
  const said = execFileSync(process.execPath, [own, what, path], { encoding: "utf8" });
  const row: Row = {
    what,
    file: name,
    fileMiB: statSync(path).size / 2 ** 20,
    ...(JSON.parse(said) as Omit<Row, "what" | "file" | "fileMiB">),
  };
  rmSync(path);
  rows.push(row);
  const [took, cpu] = [row.seconds.toFixed(1), row.cpuSeconds.toFixed(1)];
  const memory = `${row.emptyMiB.toFixed(0)} → ${row.peakMiB.toFixed(0)} MiB`;
  console.log(
    `${what}, ${row.count} of ${name} (${row.fileMiB.toFixed(0)} MiB): ${took} s (${cpu} s of processors), ${memory}`,
  );
}

console.log(`${describeMachine()}\n`);
try {
  measure("load scenarios", "scenarios.jsonl", () => lines(scenarios));
  measure("load scenarios", "scenarios.json", () => JSON.stringify(scenarios, undefined, 1));
  measure("load scenarios", "scenarios.yaml", () => scenarios.map(yaml).join(""));
  measure("stream chats", "chats.jsonl", () => lines(chats));
  measure("train() until its first step", "scenarios.jsonl", () => lines(scenarios));
  // A quarter and all: what grows faster than the data shows.
  for (const share of [4, 1]) {
    measure("trainSupervised() until its first step", "chats.jsonl", () => lines(chats.slice(0, count / share)));
  }
} finally {
  rmSync(dir, { recursive: true });
}
if (flags.write) {
  const at = fileURLToPath(new URL("../results/data.json", import.meta.url));
  writeFileSync(at, `${JSON.stringify({ machine: describeMachine(), rows }, null, 2)}\n`);
}
if (flags.json) console.log(JSON.stringify(rows));
