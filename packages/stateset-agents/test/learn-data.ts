/** Small files for the commands that learn from data. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chatModel } from "./cli.ts";
import { temporaryFolder } from "./tiny-model.ts";

const words = ["red", "blue", "big", "small", "old", "new"];

const chat = (word: string) => ({
  messages: [
    { role: "user", content: `say ${word}` },
    { role: "assistant", content: `the ${word} one` },
  ],
});
const pair = (word: string) => ({ prompt: `say ${word}`, chosen: `the ${word} one`, rejected: "no no" });
const labelled = (word: string, i: number) => ({ ...chat(word), good: i % 2 === 0 });

const lines = (of: readonly unknown[]) => `${of.map((one) => JSON.stringify(one)).join("\n")}\n`;

export const dataFiles = {
  sft: { data: "chats.jsonl", heldOut: "other-chats.jsonl" },
  dpo: { data: "pairs.jsonl", heldOut: "other-pairs.jsonl" },
  "reward-model": { data: "labels.jsonl", heldOut: "other-pairs.jsonl" },
} as const;

/**
 * A folder with data for each of them, and a project that can play conversations. The model is named by the configuration. Scenario "two"
 * is not over while the folder has a file `hold`.
 */
export async function learnFolder(model: string, dir?: string): Promise<string> {
  const folder = dir ?? (await temporaryFolder());
  mkdirSync(folder, { recursive: true });
  const write = (name: string, of: readonly unknown[]) => writeFileSync(join(folder, name), lines(of));
  write("chats.jsonl", words.map(chat));
  write("other-chats.jsonl", ["first", "last"].map(chat));
  write("pairs.jsonl", words.map(pair));
  write("other-pairs.jsonl", ["first", "last"].map(pair));
  write("labels.jsonl", [...words.map(labelled), pair("mixed")]);
  writeFileSync(
    join(folder, "stateset.config.yaml"),
    `agent: { model: ${JSON.stringify(model)}, sampling: { maxTokens: 6, temperature: 1 }, threads: 1 }
environment:
  scenarios:
    - { id: one, userResponses: ["say red"] }
    - { id: two, userResponses: ["say blue"] }
heldOut:
  - { id: three, userResponses: ["say old"] }
reward: ./reward.ts
training: { steps: 1, groupsPerStep: 2, groupSize: 3 }
`,
  );
  writeFileSync(
    join(folder, "reward.ts"),
    `import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { rewardFunction } from "stateset-agents";
export default rewardFunction({ name: "long" }, async ({ turns }) => {
  while (turns[0]!.content === "say blue" && existsSync("hold")) await setTimeout(10);
  return turns.at(-1)!.content.length / 40;
});
`,
  );
  return folder;
}

/** A project whose agent has a tool with an argument of this schema, in JavaScript. */
export async function toolProject(schema = '{ type: "string" }', agent = ""): Promise<string> {
  const model = await chatModel(1, 1024);
  const folder = temporaryFolder();
  writeFileSync(
    join(folder, "stateset.config.ts"),
    `export default {
  agent: {
    model: ${JSON.stringify(model)}, threads: 1, sampling: { maxTokens: 6 }, ${agent}
    tools: [{ name: "look", parameters: { type: "object", properties: { at: ${schema} } }, function: () => "seen" }],
  },
  environment: { scenarios: [{ id: "one", userResponses: ["hello"] }] },
  reward: { politeness: 1 },
};
`,
  );
  return folder;
}
