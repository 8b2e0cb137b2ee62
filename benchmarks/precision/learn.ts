/** One run: the starter model learns a task of the proof, with parts of training kept in fewer bits, and is measured on held-out scenarios. */
import { type AgentOptions, ConversationEnvironment, evaluate, MultiTurnAgent, train } from "stateset-agents";
import { evaluationSamples, steps as stepsOf, systemPrompt, tunedRate } from "../proof/starter/settings.ts";
import { maxTokens, type TaskName, taskReward, tasks } from "../proof/starter/tasks.ts";

/** What the agent is given beside; the first is what the others are compared with. */
export const arms = {
  f32: {},
  moments: { moments: "bf16" },
  gradients: { gradients: "bf16" },
} as const satisfies Record<string, Pick<AgentOptions, "moments" | "gradients">>;
export type Arm = keyof typeof arms;

/** In place of the default, with which so few steps hardly move anything: the rate that the proof found for this model by trials. */
export const learningRate = tunedRate;

export interface PrecisionJob {
  task: TaskName;
  arm: Arm;
  seed: number;
}

export interface PrecisionResult {
  /** Mean reward of each step. */
  curve: number[];
  /** Mean score of each held-out scenario after training, in their order. */
  scenarios: number[];
}

const short = (value: number) => Number(value.toFixed(4));

export async function learn({ task: name, arm, seed }: PrecisionJob): Promise<PrecisionResult> {
  const task = tasks[name];
  const agent = new MultiTurnAgent({ systemPrompt, sampling: { maxTokens }, threads: 1, ...arms[arm] });
  const environment = (which: "training" | "heldOut") =>
    new ConversationEnvironment({ scenarios: task[which], maxTurns: task.maxTurns });
  const reward = taskReward(task);
  const { run } = await train({
    ...{ agent, environment: environment("training"), reward, seed, dir: false },
    ...{ steps: stepsOf[name], maxTurns: task.maxTurns, learningRate },
  });
  const { scenarios } = await evaluate({
    ...{ agent, environment: environment("heldOut"), reward, seed: 0 },
    samples: evaluationSamples.trained,
  });
  await agent.close();
  return {
    curve: run.metrics.flatMap(({ step, reward: mean }) => (step > 0 && mean !== undefined ? [short(mean)] : [])),
    scenarios: scenarios.map(({ mean }) => short(mean)),
  };
}
