/** One run: an agent measured, trained through its own calls, and measured again. */
import { defineHarness, evaluate, type Harness, MultiTurnAgent, train } from "stateset-agents";
import { type ClientName, clients } from "./clients.ts";
import { type Shop, shop } from "./task.ts";

export interface HarnessJob {
  client: ClientName;
  seed: number;
  /** -1: the reward with its sign flipped. */
  sign: 1 | -1;
  quick?: true;
}

export interface HarnessResult {
  /** By held-out task, the share of its conversations that succeeded. */
  before: number[];
  after: number[];
  /** Of every step. */
  rewards: number[];
  /** The largest first ratio of any step. */
  firstRatioMax: number;
  conversations: number;
  /** Conversations that came to nothing. */
  lost: number;
  calls: number;
  /** Calls that went on from tokens that were recorded before. */
  continued: number;
}

export const full = { steps: 30, groupsPerStep: 4, groupSize: 8, trainingTasks: 64, heldOutTasks: 48, samples: 4 };
export const small = { steps: 2, groupsPerStep: 2, groupSize: 2, trainingTasks: 4, heldOutTasks: 6, samples: 1 };
export const learningRate = 1e-4;
export const maxTokens = 48;

export const labelOf = ({ client, seed, sign }: HarnessJob) => `${client}, seed ${seed}${sign < 0 ? ", flipped" : ""}`;

export async function learnHarness({ client, seed, sign, quick }: HarnessJob): Promise<HarnessResult> {
  const sizes = quick ? small : full;
  const agent = new MultiTurnAgent({ threads: 1, sampling: { temperature: 1, maxTokens } });
  await agent.initialize();
  const counts = { calls: 0, continued: 0 };
  const harnessOf = (place: Shop, factor: number, counting = false): Harness =>
    defineHarness({
      scenarios: place.scenarios,
      async run({ scenario, seed: own, ...access }) {
        const errand = await place.errand(scenario, own);
        // An agent that ran out of steps, or was told something it cannot read, has failed its errand.
        const answer = await clients[client](access, errand).catch(() => "");
        return factor * (await errand.judge(answer));
      },
      onCall({ chain }) {
        if (!counting) return;
        counts.calls++;
        if (chain === "continued") counts.continued++;
      },
    });
  const heldOut = harnessOf(shop({ heldOut: true, tasks: sizes.heldOutTasks }), 1);
  const { samples, steps, groupsPerStep, groupSize } = sizes;
  const measure = async () => {
    const { groups } = await evaluate({ agent, harness: heldOut, samples, seed: 0 });
    return groups.map(({ trajectories }) => trajectories.reduce((sum, one) => sum + one.reward.score, 0) / samples);
  };
  try {
    const before = await measure();
    const harness = harnessOf(shop({ heldOut: false, tasks: sizes.trainingTasks }), sign, true);
    const { run } = await train({
      ...{ agent, harness, seed, steps, groupsPerStep, groupSize, learningRate, dir: false },
      callbacks: {
        onStepEnd({ step, metrics }) {
          if (step % 5 === 0) console.error(`${labelOf({ client, seed, sign })}, step ${step}: ${metrics.reward}`);
        },
      },
    });
    const conversations = run.metrics.reduce((sum, metrics) => sum + (metrics.conversations ?? 0), 0);
    return {
      ...{ before, after: await measure(), rewards: run.metrics.map(({ reward = 0 }) => reward) },
      firstRatioMax: Math.max(...run.metrics.flatMap((metrics) => metrics.firstRatioMax ?? [])),
      ...{ conversations, lost: steps * groupsPerStep * groupSize - conversations, ...counts },
    };
  } finally {
    await agent.close();
  }
}
