/** One run: an agent learns a domain in one way and is measured on tasks that it has not seen. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  type Agent,
  createRandom,
  type Environment,
  evaluate,
  type MultiTurnAgent,
  rewardFunction,
  type SupervisedExample,
  seedOf,
  train,
  trainSupervised,
} from "stateset-agents";
import { StateReward } from "stateset-agents/rewards";
import { oracleReply, type TaskClass, taskClasses } from "stateset-agents/tools";
import { countTools } from "../../packages/stateset-agents/src/conversation/tool-counts.ts";
import { learningRateFor } from "../../packages/stateset-agents/src/learning/optimiser.ts";
import { imitateBestOfN } from "../proof/best-of-n.ts";
import { type BySource, dialoguesFile, measureDialogues } from "./dialogues.ts";
import {
  agentOf,
  type DomainName,
  domains,
  environmentOf,
  groupSize,
  groupsPerStep,
  type Level,
  measuredConstrained,
  measuredElsewhere,
  type Sizes,
  samples,
  sizesOf,
  type Way,
  type WayName,
  ways,
} from "./task.ts";

export interface ToolsJob {
  /** "starter", or the name of a folder. */
  model: string;
  domain: DomainName;
  level: Level;
  way: WayName;
  /** Of the untrained model 0. */
  seed: number;
  /** Measures calls of the dialogues instead, after the same learning: what it costs elsewhere. */
  dialogues?: true;
  quick?: true;
}

/** On held-out tasks, in their order: a task's class is that of its place (taskClasses). */
export interface Measured {
  /** Of four conversations each, how many solved it. */
  solved: number[];
  calls: number;
  /** Calls that came to nothing, by kind. */
  failures: Record<string, number>;
}

export interface Learnt extends Measured {
  steps: number;
  /** Sampled to learn from. */
  conversations: number;
  /** Success of each class in training, by tenths of the run; null where it was not drawn. */
  training: Record<TaskClass, (number | null)[]> | null;
  trainingSeconds: number;
  /** The same conversations once more, with calls that are valid by construction. */
  constrained?: Measured;
}

export interface Elsewhere {
  dialogues: BySource;
}

export type ToolsResult = Learnt | Elsewhere;

export const labelOf = ({ model, domain, level, way, seed, dialogues }: ToolsJob) =>
  `${model === "starter" ? "" : `${model}, `}${domain} ${level}, ${way}${way === "untrained" ? "" : `, seed ${seed}`}${dialogues ? ", dialogues" : ""}`;

/** Conversations an update of SFT learns from. */
const batchSize = 16;

/** Where another model than the starter lies, and where what was learnt is kept: of the machine, not of the job. */
export const places = {
  model: () => process.env.STATESET_TOOLS_MODEL,
  learnt: () => process.env.STATESET_TOOLS_LEARNT,
};

export async function learnTools(job: ToolsJob, sizes: Sizes = sizesOf(job)): Promise<ToolsResult> {
  const learnt = learntFolder(job);
  // What was learnt before is the same to the bit as what would be learnt now.
  if (job.dialogues && learnt && existsSync(learnt)) return elsewhere(agentOf(job.domain, learnt, "whole"), sizes);
  const agent = agentOf(job.domain, job.model === "starter" ? undefined : places.model());
  await agent.initialize();
  const result = await learn(agent, job, sizes);
  if (learnt && !existsSync(learnt)) await agent.save(learnt);
  if (job.dialogues) return elsewhere(agent, sizes);
  const tasks = environmentOf(job.domain, job.level, { heldOut: true, tasks: sizes.heldOutTasks });
  const measured = await measure(agent, tasks);
  const constrained = measuredConstrained.includes(job.way) && (await measure(agent, tasks, { constrain: true }));
  await agent.close();
  return { ...measured, ...result, ...(constrained && { constrained }) };
}

/** Models whose calls elsewhere are measured are kept, so that they are learnt once. */
function learntFolder({ model, domain, level, way, seed, quick: small }: ToolsJob): string | undefined {
  const folder = places.learnt();
  if (!folder || model !== "starter" || way === "untrained" || small) return undefined;
  return measuredElsewhere.includes(`${domain} ${level} ${way}`)
    ? join(folder, `${domain}-${level}-${way}-seed${seed}`)
    : undefined;
}

async function elsewhere(agent: MultiTurnAgent, { calls }: Sizes): Promise<Elsewhere> {
  const file = dialoguesFile();
  if (file === undefined) throw new Error("There are no dialogues: name their file with --dialogues FILE.");
  await agent.initialize();
  const dialogues = await measureDialogues(agent, file, calls);
  await agent.close();
  return { dialogues };
}

async function learn(
  agent: MultiTurnAgent,
  job: ToolsJob,
  sizes: Sizes,
): Promise<Pick<Learnt, "steps" | "conversations" | "training" | "trainingSeconds">> {
  const { domain, level, seed } = job;
  const way: Way = ways[job.way];
  const environment = environmentOf(domain, level, { tasks: sizes.trainingTasks });
  const success = new StateReward();
  const startedAt = performance.now();
  const result: Pick<Learnt, "steps" | "conversations" | "training"> = { steps: 0, conversations: 0, training: null };
  if (way.oracle !== undefined) {
    const examples = await oracleExamples(job, Math.max(1, Math.round(way.oracle * sizes.demonstrations)));
    const epochs = Math.max(1, Math.round(sizes.updates / Math.ceil(examples.length / batchSize)));
    const { steps } = await trainSupervised({ agent, examples, epochs, batchSize, seed, dir: false });
    result.steps += steps;
  }
  if (way.harvest) {
    const { rounds } = way.harvest;
    const conversations = sizes.steps * groupsPerStep * groupSize;
    const imitated = await imitateBestOfN(
      {
        rounds,
        n: Math.ceil(conversations / rounds / sizes.trainingTasks),
        // A quarter of what was sampled, where so many are better than the task's mean.
        keep: Math.max(1, Math.round(conversations / rounds / sizes.trainingTasks / 4)),
        updates: sizes.updates,
        learningRate: learningRateFor(agent.policy.model),
      },
      { agent, environment, reward: success, seed, batchSize },
    );
    result.steps += imitated.updates;
    result.conversations += imitated.conversations;
  }
  if (way.train) {
    const reward = way.flipped
      ? rewardFunction({ name: "flipped" }, async (conversation) => {
          return -(await success.compute(conversation)).score;
        })
      : success;
    const steps = sizes.steps * (way.longer ?? 1);
    const seen: { tenth: number; topic: string; success: boolean }[] = [];
    const { run } = await train({
      ...way.train,
      ...{ steps, seed, groupsPerStep, groupSize, agent, environment, reward, dir: false },
      callbacks: {
        onStepEnd({ step, groups, metrics }) {
          const tenth = Math.floor((10 * (step - 1)) / steps);
          for (const { scenarioId, trajectories } of groups) {
            for (const { metadata } of trajectories)
              seen.push({ tenth, topic: topicOf(scenarioId), success: metadata.success === true });
          }
          if (step % 20 === 0) console.error(`${labelOf(job)}, step ${step}/${steps}: ${metrics.reward?.toFixed(3)}`);
        },
      },
    });
    result.steps += steps;
    result.conversations += run.metrics.reduce((sum, { conversations = 0 }) => sum + conversations, 0);
    const share = (topic: TaskClass) =>
      Array.from({ length: 10 }, (_, tenth) => {
        const own = seen.filter((one) => one.topic === topic && one.tenth === tenth);
        return own.length === 0 ? null : rounded(own.filter((one) => one.success).length / own.length);
      });
    result.training = Object.fromEntries(taskClasses.map((topic) => [topic, share(topic)])) as Learnt["training"];
  }
  return { ...result, trainingSeconds: rounded((performance.now() - startedAt) / 1000) };
}

/** The seeds of conversations are the same for every run: they are compared in pairs. */
async function measure(agent: Agent, environment: Environment, options: { constrain?: true } = {}): Promise<Measured> {
  const { groups } = await evaluate({ agent, environment, reward: new StateReward(), samples, seed: 0, ...options });
  const counted = groups.flatMap(({ trajectories }) => trajectories.map(({ turns }) => countTools(turns)));
  const failures: Record<string, number> = {};
  for (const one of counted)
    for (const [kind, count] of Object.entries(one.failures)) failures[kind] = (failures[kind] ?? 0) + count;
  return {
    solved: groups.map(({ trajectories }) => trajectories.filter(({ reward }) => reward.score === 1).length),
    calls: counted.reduce((sum, { calls }) => sum + calls, 0),
    failures,
  };
}

/** What somebody who knows the way says, as training would see it: tasks of the training side, more of them than GRPO meets. */
async function oracleExamples({ domain, level, seed }: ToolsJob, count: number): Promise<SupervisedExample[]> {
  const environment = domains[domain].environment({ level, tasks: count, seed: createRandom(seedOf(seed)).below(1e6) });
  return Promise.all(
    environment.scenarios.map(async (task) => {
      let state = await environment.reset(task, { seed });
      const tools = environment.tools(state);
      while (!state.done) ({ state } = await environment.step(state, oracleReply(state)));
      const content = [domains[domain].systemPrompt, task.context].filter(Boolean).join("\n\n");
      const messages = state.turns.map(({ metadata: _, ...message }) => message);
      return { messages: [{ role: "system" as const, content }, ...messages], tools };
    }),
  );
}

/** "retail-1-act-3" → "act". */
const topicOf = (scenarioId: string) => scenarioId.split("-").at(-2)!;

const rounded = (value: number) => Math.round(1000 * value) / 1000;
