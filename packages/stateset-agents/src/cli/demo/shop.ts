/** The parts of `demo --task shop`: a shop's agent that is to look up, act, refuse and ask back, with tools it has never seen. */
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { type TaskClass, taskClasses } from "../../environment/domain/domain.ts";
import { retail } from "../../environment/domain/retail/retail.ts";
import { type Estimate, estimateMean } from "../../evaluation/estimate.ts";
import type { Evaluation } from "../../evaluation/evaluate.ts";
import { onEngine } from "../../project/on-engine.ts";
import { ConcisenessReward } from "../../reward/builtin/conciseness.ts";
import { rewardFunction } from "../../reward/define-reward.ts";
import type { RewardFunction } from "../../reward/reward-function.ts";
import { StateReward } from "../../reward/state-reward.ts";
import { intervalText, percent, table } from "../../telemetry/format.ts";
import type { DemoTask } from "./demo-task.ts";

/** The longest way through takes four replies; more room is room to go round in circles. */
const maxTurns = 6;

const classNames: Record<TaskClass, string> = {
  lookup: "look up",
  act: "look up, then act",
  refuse: "look up, then refuse",
  ask: "ask back first",
};

/** Success, half of it for saying so in at most ten words: paid for success alone, it says the word that counts and then anything. */
function pays(): RewardFunction {
  const [done, brief] = [new StateReward(), new ConcisenessReward({ maxWords: 10 })];
  return rewardFunction({ name: "success" }, async (conversation, context) => {
    const { score } = await done.compute(conversation);
    return score === 0 ? 0 : score * (0.5 + 0.5 * (await brief.compute(conversation, context)).score);
  });
}

export const shopTask: DemoTask = {
  title: "A shop's agent learns to look up, act, refuse and ask back",
  paidFor: "success",
  agent: ({ model, ...engine }) =>
    new MultiTurnAgent({
      systemPrompt: "You are a shop assistant.",
      sampling: { maxTokens: 48 },
      ...onEngine({}, engine),
      ...(model !== undefined && { model, lora: true }),
    }),
  training: () => retail({ level: 1, tasks: 128, maxTurns }),
  heldOut: ({ few }) => retail({ level: 1, heldOut: true, maxTurns, ...(few && { tasks: 20 }) }),
  reward: () => new StateReward(),
  pays,
  settings: { steps: 180, checkpoint: { every: 0 }, trajectories: { every: 25 } },
  ownModelSettings: { groupsPerStep: 2 },
  table(before, after, colors) {
    const cell = (estimate: Estimate) => `${percent(estimate.mean)} ${intervalText(estimate, percent)}`;
    const [first, last] = [byClass(before), byClass(after)];
    return table(
      [`of ${before.reward.count} held-out tasks solved`, "before", "after"],
      [
        ...taskClasses.map((topic) => [classNames[topic], cell(first[topic]), cell(last[topic])]),
        [colors.bold("all"), cell(before.reward), cell(after.reward)],
      ],
      colors.dim,
    );
  },
  measures(before, after) {
    const [first, last] = [byClass(before), byClass(after)];
    return {
      classes: Object.fromEntries(taskClasses.map((topic) => [topic, { before: first[topic], after: last[topic] }])),
    };
  },
  shown: ({ groups }) =>
    (["act", "refuse"] as const).map((topic) => groups.findIndex(({ scenarioId }) => topicOf(scenarioId) === topic)),
  // Outside of the shop the agent has no tools: `chat` would show nothing of what it learnt.
  next: () => ["npx stateset-agents init my-agent --template tools"],
};

function byClass({ scenarios }: Evaluation): Record<TaskClass, Estimate> {
  const of = (topic: TaskClass) => scenarios.filter(({ id }) => topicOf(id) === topic).map(({ mean }) => mean);
  return Object.fromEntries(taskClasses.map((topic) => [topic, estimateMean(of(topic))])) as Record<
    TaskClass,
    Estimate
  >;
}

/** "retail-1-held-out-act-3" → "act". */
const topicOf = (scenarioId: string) => scenarioId.split("-").at(-2);
