import { cp, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import type { Message } from "stateset-agents";

export const users = [
  "Hi, my order is two weeks late and I want a refund.",
  "The app keeps crashing when I open it.",
  "I was charged twice on my credit card.",
  "I want to cancel my subscription.",
];

export const shortSystem = "You are a helpful customer support agent.";

/**
 * A folder with the starter model whose end-of-reply token is one it does not write, so that every reply of both sides has its full length.
 * The weights are untouched, and prompts (which hold no assistant message) have the same tokens.
 */
export async function endlessStarter(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "stateset-bench-"));
  await cp(starterModelPath, dir, { recursive: true });
  const edit = async (file: string, change: (json: Record<string, unknown>) => Record<string, unknown>) => {
    const json = JSON.parse(await readFile(join(dir, file), "utf8")) as Record<string, unknown>;
    await writeFile(join(dir, file), JSON.stringify({ ...json, ...change(json) }));
  };
  await edit("config.json", () => ({ eos_token_id: 0 }));
  await edit("generation_config.json", () => ({ eos_token_id: 0 }));
  await edit("tokenizer_config.json", ({ chat_template }) => {
    const close = "{{- '<|im_end|>\\n' }}\n    {%- elif message.role == 'tool' %}";
    const template = String(chat_template);
    if (!template.includes(close))
      throw new Error("The starter model's chat template has changed; adapt endlessStarter().");
    return {
      eos_token: "<|endoftext|>",
      chat_template: template.replace(close, close.replace("<|im_end|>", "<|endoftext|>")),
    };
  });
  return dir;
}

/** A system prompt of about `tokens` tokens: a policy document of the kind support agents are given. */
export function longSystem(tokens: number, count: (text: string) => number): string {
  const rules = [
    "Greet the customer by name when the name is known.",
    "Refunds are possible within thirty days of the delivery; ask for the order number first.",
    "Never promise a delivery date that the system does not show.",
    "If a charge appears twice, report it to the billing team and tell the customer that it takes five to seven days.",
    "A subscription can be cancelled at any time; offer one free month before doing so.",
    "When the app crashes, ask for the version and the device, and suggest an update.",
    "Be short, be polite, and do not repeat yourself.",
  ];
  let text = shortSystem;
  for (let i = 0; count(text) < tokens; i++) text += ` ${i + 1}. ${rules[i % rules.length]}`;
  return text;
}

export function prompts(system: string): Message[][] {
  return users.map((content) => [
    { role: "system", content: system },
    { role: "user", content },
  ]);
}
