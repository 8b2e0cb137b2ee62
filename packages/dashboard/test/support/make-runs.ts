/** Real runs of every kind that the page shows, made by the commands that users make them with. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { ConversationEnvironment, MultiTurnAgent, train } from "stateset-agents";
import { systemPrompt } from "../../../../benchmarks/proof/starter/settings.ts";
import { maxTokens, taskReward, tasks } from "../../../../benchmarks/proof/starter/tasks.ts";
import { runCli } from "../../../stateset-agents/src/cli/program.ts";
import { chatModel } from "../../../stateset-agents/test/cli.ts";

const lines = (of: readonly unknown[]) => of.map((one) => `${JSON.stringify(one)}\n`).join("");

const asked = ["My parcel is late.", "I want a refund.", "The zip is broken.", "You charged me twice."];
const kind = "I am sorry about that. Please tell me your order number.";
const chats = asked.map((content) => ({ messages: [chat("user", content), chat("assistant", kind)] }));
const pairs = asked.map((prompt) => ({ prompt, chosen: kind, rejected: "Not our problem. Read the manual." }));

function chat(role: string, content: string) {
  return { role, content };
}

const recorded = ["trajectories.every=1", "trajectories.perStep=4"].flatMap((set) => ["--set", set]);
const small = ["--steps", "3", "--groups-per-step", "2", "--group-size", "4", "--max-tokens", "24"];
/** Before, after and in between; two samples a scenario say how far off each is. */
const evaluated = ["evaluation.every=2", "evaluation.samples=2"].flatMap((set) => ["--set", set]);
/** The second update clips some tokens: the first one moves their ratios by less than the usual bounds. */
const clips = ["updatesPerRollout=2", "epsilonLow=0.0001", "epsilonHigh=0.0001"].flatMap((set) => ["--set", set]);
const grpo = ["train", "--kl", "0.05", ...clips, ...small, ...evaluated, ...recorded];
const others = ["train", ...small, "--set", "evaluation.every=0", ...recorded];

/** Arguments of each run below; its name is the key. */
const commands: Readonly<Record<string, readonly string[]>> = {
  grpo,
  "grpo-seed2": [...grpo, "--seed", "2"],
  ppo: [...others, "--algorithm", "ppo"],
  dapo: [...others, "--algorithm", "dapo", "--reward", "./even.ts"],
  failing: [...others, "--reward", "./failing.ts"],
  sft: ["sft", "--data", "chats.jsonl", "--held-out", "chats.jsonl", "--epochs", "2", "--batch-size", "2", ...recorded],
  dpo: ["dpo", "--data", "pairs.jsonl", "--held-out", "pairs.jsonl", "--epochs", "2", "--batch-size", "2", ...recorded],
};

/** Makes `<folder>/runs/<name>` of all of them, the demo and a run of the proof. */
export async function makeRuns(folder: string): Promise<void> {
  writeProject(folder);
  for (const [name, args] of Object.entries(commands)) {
    // A run whose conversations are lost ends as failed; that is what it is for.
    await command(folder, [...args, "--name", name], { mayFail: name === "failing" });
  }
  // Of a model of a few kilobytes: the demo evaluates a hundred conversations before and after.
  await command(folder, ["demo", "--steps", "2", "--model", await chatModel(1, 512)]);
  await proofRun(join(folder, "runs", "proof"));
}

/** In this process, which is quicker than one of its own. */
export async function command(cwd: string, args: readonly string[], { mayFail = false } = {}): Promise<void> {
  const said: string[] = [];
  const quiet = { isTTY: false, columns: 100, write: () => {} };
  const stderr = { ...quiet, write: (text: string) => void said.push(text) };
  const stdin = Object.assign(Readable.from([""]), { isTTY: false });
  const io = { stdout: quiet, stderr, stdin, env: {}, cwd, onInterrupt: () => () => {} };
  const status = await runCli([...args, "--json"], io);
  if (status !== 0 && !mayFail) throw new Error(`${args.join(" ")} ended with ${status}: ${said.join("")}`);
}

async function proofRun(dir: string): Promise<void> {
  const task = tasks.delayed;
  const agent = new MultiTurnAgent({ systemPrompt, sampling: { maxTokens } });
  await agent.initialize();
  const environment = new ConversationEnvironment({ scenarios: task.training, maxTurns: task.maxTurns });
  await train({ agent, environment, reward: taskReward(task, 1), dir, steps: 2, groupsPerStep: 2, groupSize: 4 });
  await agent.close();
}

export function writeProject(folder: string): void {
  const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
  write("chats.jsonl", lines(chats));
  write("pairs.jsonl", lines(pairs));
  const scenarios = (prefix: string) => asked.map((text, i) => ({ id: `${prefix}-${i}`, userResponses: [text] }));
  write("train.jsonl", lines(scenarios("ask")));
  write("held-out.jsonl", lines([...scenarios("new"), ...scenarios("other")]));
  write(
    "stateset.config.yaml",
    `agent: { systemPrompt: You are a polite support agent., sampling: { maxTokens: 24 } }
environment: { scenarios: train.jsonl, maxTurns: 1 }
heldOut: held-out.jsonl
reward: { politeness: 0.5, conciseness: 0.5 }
`,
  );
  // Many groups are all alike: DAPO refuses them.
  write("even.ts", reward("even", "turns.at(-1).content.length % 5 === 0 ? 1 : 0"));
  write(
    "failing.ts",
    reward(
      "failing",
      'turns.at(-1).content.length % 3 === 0 ? (() => { throw new Error("the judge is gone"); })() : 0.5',
    ),
  );
}

function reward(name: string, score: string): string {
  return `import { rewardFunction } from "stateset-agents";
export default rewardFunction({ name: "${name}" }, ({ turns }) => ${score});
`;
}
