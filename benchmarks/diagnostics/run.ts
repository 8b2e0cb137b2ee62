import { type Environment, evaluate, MultiTurnAgent, type TrainingCallbacks, train } from "stateset-agents";
import {
  type Adjustment,
  autoAdjust,
  readSignals,
  type StepSignals,
  type Verdict,
  watchHealth,
} from "stateset-agents/telemetry";
import { usual } from "./case.ts";
import { cases } from "./cases.ts";

export interface Job {
  case: string;
  autoAdjust: boolean;
}

export interface RunResult {
  /** Of what is wanted, on held-out users. */
  before: number;
  after: number;
  verdicts: Verdict[];
  adjustments: Adjustment[];
  /** Every step, from which verdicts can be made anew. */
  signals: StepSignals[];
  /** Replies of the last step. */
  samples: string[];
}

/** One training in this process. */
export async function runCase(job: Job): Promise<RunResult> {
  const { environment, reward, wanted = reward, settings = {}, seed } = cases[job.case]!;
  const agent = new MultiTurnAgent({ systemPrompt: "You are a helpful customer support agent.", threads: 1 });
  await agent.initialize();
  const heldOut = environment({ heldOut: true });
  const sampling = { temperature: 1, maxTokens: settings.sampling?.maxTokens ?? usual.sampling.maxTokens };
  const measure = async () =>
    (await evaluate({ agent, environment: heldOut as Environment, reward: wanted, samples: 4, seed: 99, sampling }))
      .reward.mean;
  const result: RunResult = {
    before: await measure(),
    after: 0,
    verdicts: [],
    adjustments: [],
    signals: [],
    samples: [],
  };
  const { vocabSize } = agent.policy.model;
  const onlooker: TrainingCallbacks = {
    onVerdict: ({ step, kind, severity, message, advice }) =>
      void result.verdicts.push({ step, kind, severity, message, advice }),
    onAdjustment: (adjustment) => void result.adjustments.push(adjustment),
    onStepEnd({ step, metrics, groups }) {
      result.signals.push(readSignals({ step, metrics, groups, vocabulary: vocabSize }));
      result.samples = groups.flatMap(({ trajectories }) => trajectories[0]?.turns.at(-1)?.sampled?.text ?? []);
    },
  };
  await train({
    ...usual,
    ...settings,
    sampling: { ...usual.sampling, ...settings.sampling },
    agent,
    environment: environment({ heldOut: false }),
    reward,
    seed,
    dir: false,
    callbacks: [job.autoAdjust ? autoAdjust() : watchHealth(), onlooker],
  } as Parameters<typeof train>[0]);
  result.after = await measure();
  await agent.close();
  return result;
}
