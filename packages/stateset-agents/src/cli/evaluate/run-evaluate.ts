import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Agent } from "../../agent/agent.ts";
import { writeFailed } from "../../durable.ts";
import { Environment } from "../../environment/environment.ts";
import type { Scenario } from "../../environment/scenario.ts";
import { StatesetError } from "../../error.ts";
import { compare, type Evaluation, evaluateWith } from "../../evaluation/evaluate.ts";
import { buildScene, closeScene, defaultConfig, type Scene } from "../../project/build-project.ts";
import type { RewardFunction } from "../../reward/reward-function.ts";
import { type CliIo, isInteractive, print, printJson } from "../io.ts";
import { type OpenAgentFlags, openAgent } from "../open-agent.ts";
import { loadConfig, readingOf, withReward } from "../run/open-project.ts";
import { watching } from "../run/watching.ts";
import { readInputs } from "./inputs.ts";
import { comparisonLines, evaluationLines } from "./tables.ts";

export interface EvaluateFlags extends OpenAgentFlags {
  checkpoint?: string;
  compare?: string;
  message?: string;
  input?: string;
  scenarios?: string | true;
  reward?: string;
  samples?: number;
  episodes?: number;
  skipBad?: boolean;
  output?: string;
  json?: boolean;
}

/** The `evaluate` command. */
export async function runEvaluate(flags: EvaluateFlags, io: CliIo): Promise<void> {
  const plays = [flags.compare, flags.scenarios, flags.episodes].some((flag) => flag !== undefined);
  if (plays) return runScenarios(flags, io);
  if (flags.message === undefined && flags.input === undefined) {
    if (!isInteractive(io)) {
      throw new StatesetError("INVALID_OPTION", "There is nothing to evaluate.", {
        hint: "Give --message, --input or --scenarios, or run it in a terminal to type messages.",
      });
    }
    const { runChat } = await import("../chat/run-chat.ts");
    const { checkpoint, ...rest } = flags;
    return runChat({ ...rest, ...(checkpoint !== undefined && { checkpoint: [checkpoint] }) }, io);
  }
  const inputs =
    flags.message === undefined
      ? await readInputs(resolve(io.cwd, flags.input!))
      : [{ messages: [{ role: "user" as const, content: flags.message }] }];
  const agent = await openAgent(flags.checkpoint, flags, io);
  try {
    const answers = await Promise.all(
      inputs.map(async ({ messages }, i) => ({
        messages,
        reply: await agent.generateResponse(messages, { seed: flags.seed! + i }),
      })),
    );
    const stub = agent.policy.model.stub;
    save(flags.output, answers, io);
    if (flags.json) for (const answer of answers) printJson(io, { ...answer, ...(stub && { stub }) });
    else if (flags.message !== undefined) print(io, answers[0]!.reply);
    else for (const { messages, reply } of answers) print(io, `> ${messages.at(-1)!.content}`, reply, "");
    if (stub && !flags.json) io.stderr.write("! A stub made this reply up.\n");
  } finally {
    await agent.close();
  }
}

async function runScenarios(flags: EvaluateFlags, io: CliIo): Promise<void> {
  const scene = await sceneOf(flags, io);
  try {
    await measureIn(stageOf(scene), flags, io);
  } finally {
    await closeScene(scene);
  }
}

async function measureIn({ environment, scenarios, reward }: Stage, given: EvaluateFlags, io: CliIo): Promise<void> {
  // The tools may be the environment's, so it is asked of the conversations and not of the agent.
  const { constrain, ...flags } = given;
  const samples = samplesOf(flags, (scenarios ?? environment.scenarios).length);
  const measure = async (checkpoint: string | undefined): Promise<Evaluation> => {
    const agent: Agent = await openAgent(checkpoint, flags, io);
    try {
      const options = {
        agent,
        environment,
        ...(scenarios && { scenarios }),
        ...(reward && { reward }),
        ...(samples !== undefined && { samples }),
        seed: flags.seed!,
        ...(constrain && { constrain: true }),
      };
      return await watching(flags.json, io, (onProgress) => evaluateWith(options, { onProgress }));
    } finally {
      await agent.close();
    }
  };
  const a = await measure(flags.checkpoint);
  if (flags.compare === undefined) {
    save(flags.output, withoutGroups(a), io);
    if (flags.json) printJson(io, withoutGroups(a));
    else print(io, ...evaluationLines(a, io));
    return;
  }
  const b = await measure(flags.compare);
  const comparison = compare(a, b, { seed: flags.seed! });
  const result = { a: withoutGroups(a), b: withoutGroups(b), comparison };
  save(flags.output, result, io);
  if (flags.json) printJson(io, result);
  else
    print(
      io,
      ...comparisonLines(a, b, comparison, { a: flags.checkpoint ?? "the project's model", b: flags.compare }, io),
    );
}

interface Stage {
  environment: Environment;
  /** Undefined: the environment's own. */
  scenarios?: readonly Scenario[];
  reward: RewardFunction | undefined;
}

/** Where conversations are played and how they are scored: the project's, or support conversations where there is none. */
async function sceneOf(flags: EvaluateFlags, io: CliIo): Promise<Scene> {
  const loaded = withReward(await loadConfig(flags, defaultConfig, io), flags.reward, io);
  if (loaded.config === defaultConfig && !flags.json) {
    const parts = Object.keys(defaultConfig.reward!).join(" and ");
    io.stderr.write(
      `· There is no configuration here: conversations are scored by ${parts}. --config names another.\n`,
    );
  }
  // The agent comes from the checkpoint, so the project's own is not opened here.
  const { config } = loaded;
  const file = typeof flags.scenarios === "string" ? { heldOut: resolve(io.cwd, flags.scenarios) } : {};
  return buildScene({ ...loaded, config: { ...config, ...file } }, readingOf(flags, io));
}

function stageOf({ environment, heldOut, reward }: Scene): Stage {
  if (heldOut instanceof Environment) return { environment: heldOut, reward };
  return { environment, reward, ...(heldOut && { scenarios: heldOut }) };
}

/** Every scenario is played equally often, so that none counts for more: at least as many conversations as were asked for. */
function samplesOf({ samples, episodes }: EvaluateFlags, scenarios: number): number | undefined {
  if (episodes === undefined) return samples;
  if (samples !== undefined) {
    throw new StatesetError("INVALID_OPTION", "--samples and --episodes both say how many conversations to play.", {
      hint: "Give one of them: --samples is per scenario, --episodes in all.",
    });
  }
  return Math.max(1, Math.ceil(episodes / scenarios));
}

function withoutGroups({ groups: _, ...numbers }: Evaluation): Omit<Evaluation, "groups"> {
  return numbers;
}

function save(path: string | undefined, value: unknown, io: CliIo): void {
  if (path === undefined) return;
  const file = resolve(io.cwd, path);
  try {
    writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`);
  } catch (error) {
    throw writeFailed(file, error);
  }
}
