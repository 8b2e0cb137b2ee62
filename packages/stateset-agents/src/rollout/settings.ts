import { z } from "zod";
import { longestTimerMs } from "../options.ts";

const timeMs = z.number().positive().max(longestTimerMs);
const count = z.int().min(1);

/** How conversations are played, wherever they are: spread into the schemas of train(), evaluate() and harvestBestOfN(). */
export const rolloutShape = {
  sampling: z
    .strictObject({
      temperature: z.number().min(0).optional().describe("Left out: the agent's own. 0 is greedy, for evaluations."),
      maxTokens: count.optional().describe("Tokens per reply. Left out: the agent's own."),
    })
    .prefault({})
    .describe("What rollouts change in the agent's sampling."),
  constrain: z
    .boolean()
    .optional()
    .describe("Hold calls of tools to their schemas while they are sampled. Left out: as the agent has it."),
  maxTurns: count.default(16).describe("Replies per conversation at most, whatever the environment allows."),
  concurrency: count
    .optional()
    .describe(
      "Conversations that run at the same time. Left out: as many as the engine samples together, 64 at least.",
    ),
  timeouts: z
    .strictObject({
      environmentMs: timeMs.default(30_000).describe("The longest one reset() or step() may take."),
      rewardMs: timeMs
        .default(60_000)
        .describe(
          "The longest the reward of one conversation may take, without its waits for the model: `score`, and what it waits for through `untimed`.",
        ),
    })
    .prefault({}),
  onFailure: z
    .union(
      [z.enum(["lowest", "drop"]), z.strictObject({ score: z.number() })],
      '"lowest", "drop" or {score} was expected',
    )
    .default("lowest")
    .describe(
      'What a conversation counts in which the environment threw at a reply. `"lowest"`: the lowest reward so far, and at most 0. `{"score": n}`: that. `"drop"`: it is left out, which teaches replies that break the environment.',
    ),
} as const;

const schema = z.strictObject(rolloutShape);
export type RolloutOptions = z.input<typeof schema>;
export type RolloutSettings = z.output<typeof schema>;
