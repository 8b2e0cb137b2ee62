/** Folders of runs that hold what nobody should ever write: for every place where the page shows a string, or trusts a number. */
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type RecordedConversation, writeTrajectories } from "../../../stateset-agents/src/run/trajectories.ts";

const ran = "globalThis.hacked = 1";
/** Scripts, what turns text around, what a terminal obeys, half a character, letters with too many marks, and what ends a line. */
export const bad =
  `<script>${ran}</script><img src=x onerror="${ran}">'"&amp;{{x}} \u001b[31mred\u001b[0m\u001b]8;;http://evil.test\u0007 ` +
  `\u202Etxt.exe\u202C \u0000\u0007\u200b \ud800 שלום e\u0301\u0302\u0303\u0304 javascript:${ran} \u2028 end`;
/** What of it any page that shows it shows. */
export const badShown = `<script>${ran}</script>`;

/** What a name of a folder can hold of it. */
const badName = `<img src=x onerror=hacked=1>\u202e"'&#?%41 [31m`;
export const hostileKey = badName;
export const deletedKey = "deleted";
/** The same, with a conversation. */
export const emptiedKey = "emptied";

const longest = 1_000_000;
const manyTokens = 100_000;
/** More than a page of the list of conversations, in seven groups. */
const many = 120;
/** The last of the last group. */
export const last = 118;

export function writeHostileRuns(runs: string): void {
  writeHostile(join(runs, badName));
  writeOdd(runs);
  writeSmall(join(runs, deletedKey), { id: deletedKey });
  writeSmall(join(runs, emptiedKey), { id: emptiedKey });
  writeTrajectories(join(runs, emptiedKey), 1, [said("plain")], { tokens: true });
}

function writeHostile(dir: string): void {
  mkdirSync(join(dir, "checkpoints", "step-000003"), { recursive: true });
  mkdirSync(join(dir, "checkpoints", "<b>step-000004"));
  const write = (name: string, value: unknown) => writeFileSync(join(dir, name), JSON.stringify(value));
  const lines = (name: string, values: readonly unknown[]) =>
    writeFileSync(
      join(dir, name),
      values.map((value) => (typeof value === "string" ? `${value}\n` : `${JSON.stringify(value)}\n`)).join(""),
    );
  writeFileSync(join(dir, "checkpoints", "best"), bad);
  write("config.json", {
    ...{ version: 2, id: bad, learner: "rl", model: { name: bad }, algorithm: { algorithm: bad, [bad]: bad } },
    ...{ settings: { seed: 1, steps: 40, [bad]: { [bad]: bad } }, forkedFrom: { run: bad, step: 1 }, [bad]: [bad] },
  });
  // A clock that went back, and one that is not of this world.
  write("status.json", {
    state: "failed",
    reason: bad,
    pid: 1,
    host: bad,
    startedAt: 4e12,
    heartbeatAt: 1,
    step: 30,
    steps: 40,
  });
  write("notes.json", { version: 1, tags: [bad, "kept"], note: bad, archived: false, changedAt: 8e15 });
  const metrics = Array.from({ length: 30 }, (_, i) => ({
    ...{ step: i + 1, [`part/${bad}`]: 0.3, "part/other": 0.2, [bad]: i, ["__proto__"]: 2, constructor: 1 },
    // Not a number for a while; and one that begins late.
    reward: i > 8 && i < 14 ? null : i / 30,
    ...(i > 20 && { late: i }),
  }));
  lines("metrics.jsonl", [...metrics.slice(0, 5), '{"step":5,"rew', ...metrics.slice(5), "\u0000\u0001 no json"]);
  appendFileSync(join(dir, "metrics.jsonl"), '{"step":31,"reward":0.');
  lines("timing.jsonl", [{ step: 1, rolloutMs: -5, updateMs: 1e300, otherMs: 3, tokensPerSecond: 1e308 }]);
  lines("events.jsonl", [
    { seq: 0, step: 0, type: "start", learner: bad, steps: 40 },
    evaluationEvent(0, 0.2),
    {
      seq: 2,
      step: 3,
      type: "verdict",
      kind: bad,
      severity: bad,
      message: bad,
      advice: bad,
      scenarioIds: [bad, "plain"],
    },
    { seq: 3, step: 4, type: "adjustment", setting: bad, from: 1, to: 2, reason: bad },
    { seq: 4, step: 5, type: "warning", kind: bad, message: bad },
    { seq: 5, step: 1e9, type: bad, message: bad },
    '{"seq":6,"step":6,"type":"warn',
    evaluationEvent(3, 0.4),
    { seq: 8, step: 30, type: "end", status: bad, reason: bad },
  ]);
  lines("evaluations.jsonl", [score(0, bad, 0.2), score(0, "plain", 0.1), score(3, bad, 0.6), score(3, "plain", 0.05)]);
  const conversation = said(bad);
  lines("live.jsonl", [
    { seq: 1, at: 1e18, step: 1, type: "conversation", ...conversation.record },
    {
      seq: 2,
      at: -1,
      step: 1,
      type: "reward",
      group: conversation.record.group,
      id: bad,
      score: 0.5,
      breakdown: { [bad]: 0.5 },
    },
    { seq: 3, at: 3, step: 1, type: "conversation", ...failed(1).record },
    '{"seq":4,"at":4,"st',
  ]);
  const step1 = [conversation, failed(1), strange()];
  writeTrajectories(dir, 1, step1, { tokens: true });
  appendFileSync(join(dir, "trajectories", "step-000001.jsonl"), '{"id":"torn","mess');
  writeTrajectories(dir, 2, [long(), endless(), ...Array.from({ length: many }, (_, i) => short(i))], { tokens: true });
  lines("trajectories/evaluation-000003.jsonl", [
    { ...conversation.record, id: "held", set: "report", step: 3, chains: [] },
  ]);
}

const evaluationEvent = (step: number, mean: number) => ({
  ...{
    seq: 1 + step,
    step,
    type: "evaluation",
    set: "report",
    reward: { mean, count: 2, low: mean - 0.1, high: mean + 0.1 },
  },
  ...{ parts: { [bad]: mean }, failed: 1, lost: 1, failures: [bad], partFailures: { [bad]: 1 } },
});

const score = (step: number, scenario: string, mean: number) => ({
  ...{ step, set: "report", scenario, mean, spread: 0.1, samples: 2, failed: 1, words: 3 },
});

/** Every string of a conversation; its tokens in two chains, of which the second says why it began. */
function said(text: string): RecordedConversation {
  const call = (args: string) => ({ id: text, type: "function" as const, function: { name: text, arguments: args } });
  return {
    record: {
      ...{
        id: text,
        group: text,
        scenarioId: text,
        step: 1,
        system: text,
        ended: "done",
        temperature: 1,
        versions: [text, "2"],
      },
      messages: [
        { role: "user", content: text, name: text },
        {
          role: "assistant",
          content: text,
          reasoning: text,
          tool_calls: [call(JSON.stringify({ [text]: [text, { [text]: 1 }] })), call(text)],
        },
        { role: "tool", content: JSON.stringify({ [text]: text }), tool_call_id: text, name: text },
        { role: "tool", content: text, tool_call_id: text },
        { role: "assistant", content: text },
      ],
      turns: { 4: { reward: -1 } },
      tools: [{ type: "function", function: { name: text, description: text, parameters: { type: "object" } } }],
      reward: { score: 0.5, breakdown: { [text]: 0.5 }, metadata: { [text]: text } },
      metadata: { [text]: text },
      chains: [
        { length: 6, learnLength: 3, started: "first-prompt", versions: { 1: text } },
        { length: 8, learnLength: 3, started: "template-rewrote", versions: { 4: text } },
      ],
    } as never,
    chains: [chain(3, 3, 1), chain(5, 3, 4)],
    learnt: { advantage: new Float32Array([1e30, Number.NaN, -1, 0, 1, 2]), ratio: new Float32Array(6).fill(1) },
  };
}

function failed(index: number): RecordedConversation {
  const failure = { kind: "threw", during: "reward", message: bad };
  const record = {
    id: `failed-${index}`,
    group: bad,
    scenarioId: bad,
    step: 1,
    messages: [{ role: "user", content: "" }],
    failure,
    leftOut: "lost",
    chains: [],
  };
  return { record: record as never, chains: [] };
}

/** Words where one of a few is expected. */
function strange(): RecordedConversation {
  const { record } = failed(2);
  const failure = { kind: bad, during: bad, message: bad };
  return { record: { ...record, ended: bad, leftOut: bad, failure } as never, chains: [] };
}

function long(): RecordedConversation {
  const record = {
    ...{ id: "long", group: "big", scenarioId: "big", step: 2, ended: "max-tokens", chains: [] },
    messages: [{ role: "user", content: `${bad} ${"lorem ipsum \n".repeat(longest / 13)}` }],
    reward: { score: 1, breakdown: {} },
  };
  return { record: record as never, chains: [] };
}

function endless(): RecordedConversation {
  const record = {
    ...{ id: "endless", group: "big", scenarioId: "big", step: 2, ended: "max-tokens" },
    messages: [
      { role: "user", content: "Go on." },
      { role: "assistant", content: "word ".repeat(1000) },
    ],
    reward: { score: 0, breakdown: {} },
    chains: [{ length: manyTokens, learnLength: manyTokens - 10, started: "first-prompt" }],
  };
  return { record: record as never, chains: [chain(10, manyTokens - 10, 1)] };
}

function short(index: number): RecordedConversation {
  const record = {
    ...{
      id: `short-${index}`,
      group: `g${index % 7}`,
      scenarioId: `s${index % 7}`,
      step: 2,
      ended: "done",
      chains: [],
    },
    messages: [
      { role: "user", content: `Question ${index}` },
      { role: "assistant", content: `Answer ${index}` },
    ],
    reward: { score: index / many, breakdown: {} },
  };
  return { record: record as never, chains: [] };
}

function chain(prompt: number, reply: number, turn: number): RecordedConversation["chains"][number] {
  const length = prompt + reply;
  const of = <T>(given: T, sampled: T) => Array.from({ length }, (_, i) => (i < prompt ? given : sampled));
  return {
    tokens: Int32Array.from({ length }, (_, i) => 300 + (i % 3000)),
    learn: Uint8Array.from(of(0, 1)),
    turn: Int32Array.from(of(-1, turn)),
    logprobs: Float32Array.from({ length }, (_, i) => (i < prompt ? 0 : -(i % 9) - 0.25)),
  } as never;
}

/** Written by a newer version, twice of one id, torn, no runs at all. */
function writeOdd(runs: string): void {
  writeSmall(join(runs, "newer"), { version: 99, id: "newer", algorithm: ["a", "list"], settings: "none", model: 7 });
  writeFileSync(
    join(runs, "newer", "status.json"),
    JSON.stringify({ state: "dreaming", startedAt: 1, heartbeatAt: 2, step: "x", steps: {} }),
  );
  for (const name of ["twin-a", "twin-b"]) writeSmall(join(runs, name), { id: "twin" });
  writeSmall(join(runs, "torn"), {});
  writeFileSync(join(runs, "torn", "config.json"), '{"version":2,"id":"tor');
  writeFileSync(join(runs, "torn", "metrics.jsonl"), Buffer.from([0xff, 0xfe, 0, 10, 0xc3, 0x28, 10, 123, 10]));
  writeFileSync(join(runs, "torn", "notes.json"), "[1]");
  mkdirSync(join(runs, "no-run"));
  writeFileSync(join(runs, "no-run", "readme.txt"), bad);
  writeFileSync(join(runs, "a-file"), bad);
}

function writeSmall(dir: string, config: object): void {
  mkdirSync(dir, { recursive: true });
  const whole = {
    version: 2,
    learner: "rl",
    algorithm: { algorithm: "grpo" },
    model: { name: "m" },
    settings: { seed: 1, steps: 2 },
    ...config,
  };
  writeFileSync(join(dir, "config.json"), JSON.stringify(whole));
  writeFileSync(join(dir, "metrics.jsonl"), '{"step":1,"reward":0.25}\n{"step":2,"reward":0.5}\n');
  writeFileSync(
    join(dir, "status.json"),
    JSON.stringify({
      state: "finished",
      startedAt: 1e12,
      heartbeatAt: 1e12,
      step: 2,
      steps: 2,
      pid: 1,
      host: "elsewhere",
    }),
  );
}
