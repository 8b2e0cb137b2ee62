/** Pins which folder of the library may import which, so that no circle and no shortcut comes in unnoticed. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../packages/stateset-agents/src", import.meta.url));

/** A folder and what it imports. Each may import only folders above it in this list; the files of src/ itself are open to all. */
const rooms: Record<string, string> = {
  conversation: "",
  algorithm: "",
  policy: "conversation",
  tool: "conversation policy",
  endpoint: "conversation policy",
  environment: "conversation endpoint tool",
  agent: "conversation environment policy tool",
  reward: "conversation endpoint environment policy tool",
  server: "agent conversation endpoint policy tool",
  rollout: "agent conversation environment reward",
  harness: "agent conversation environment policy rollout server",
  evaluation: "agent conversation environment harness reward rollout",
  learning: "algorithm conversation policy",
  run: "agent conversation evaluation learning policy rollout",
  telemetry: "conversation endpoint evaluation rollout run",
  supervised: "agent algorithm conversation environment learning policy reward rollout run telemetry",
  preference: "agent algorithm conversation learning policy reward run supervised",
  training: "agent algorithm conversation environment evaluation harness learning policy reward rollout run telemetry",
  dashboard: "algorithm conversation evaluation learning policy preference run server supervised training",
  compat: "agent environment evaluation reward run training",
  doors:
    "agent algorithm compat conversation dashboard endpoint environment evaluation learning policy preference reward rollout run server supervised telemetry test-support tool training",
  project:
    "agent algorithm conversation doors endpoint environment policy preference reward run supervised telemetry training",
  cli: "agent algorithm conversation dashboard environment evaluation learning policy preference project reward rollout run server supervised telemetry tool training",
};

const files = (readdirSync(root, { recursive: true }) as string[]).filter(
  (path) => path.endsWith(".ts") && !/\.(test|cases)\.ts$/.test(path) && !/test-support|fixtures/.test(path),
);

/** Where a file's relative imports lead, from src/. */
function importsOf(path: string): string[] {
  const source = readFileSync(join(root, path), "utf8");
  const found = source.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g);
  return [...found].map(([, to]) => relative(root, resolve(root, dirname(path), to!)));
}

const roomOf = (path: string) => (path.includes(sep) ? path.split(sep)[0]! : "");

it("lets every folder import what the list says and nothing else", () => {
  const graph = new Map<string, Set<string>>();
  for (const path of files) {
    const own = graph.get(roomOf(path)) ?? new Set();
    for (const to of importsOf(path).map(roomOf)) if (to !== "" && to !== roomOf(path)) own.add(to);
    graph.set(roomOf(path), own);
  }
  graph.delete("");
  const seen = Object.fromEntries([...graph].map(([room, to]) => [room, [...to].sort().join(" ")]));
  expect(seen).toEqual(rooms);
});

it("knows no circle: a folder imports only folders above it in the list", () => {
  const order = Object.keys(rooms);
  for (const [room, list] of Object.entries(rooms)) {
    for (const to of list.split(" ").filter(Boolean)) {
      expect(order.indexOf(to), `${room} imports ${to}`).toBeLessThan(order.indexOf(room));
    }
  }
});

it("lets the files of src/ itself import each other alone, but for the public door", () => {
  const own = files.filter((path) => roomOf(path) === "" && path !== "index.ts");
  expect(own.flatMap(importsOf).filter((to) => roomOf(to) !== "")).toEqual([]);
});

it("keeps the command line out of the library, and everything but errors, options and random out of the algorithms", () => {
  const library = files.filter((path) => roomOf(path) !== "cli");
  expect(library.filter((path) => importsOf(path).some((to) => roomOf(to) === "cli"))).toEqual([]);
  const outside = files.filter((path) => roomOf(path) === "algorithm").flatMap(importsOf);
  const allowed = ["error.ts", "options.ts", "random.ts", "suggest.ts"];
  expect(outside.filter((to) => roomOf(to) !== "algorithm" && !allowed.includes(to))).toEqual([]);
});

it("keeps the whole idea within 700 lines, as ARCHITECTURE.md says", () => {
  const idea = [
    "training/loop.ts",
    "rollout/play.ts",
    "learning/learn.ts",
    "learning/micro-batch.ts",
    "learning/update.ts",
  ];
  const lines = idea.map((path) => readFileSync(join(root, path), "utf8").split("\n").length - 1);
  expect(lines.reduce((sum, count) => sum + count, 0)).toBeLessThan(700);
});
