/** A run of an agent that drives itself, on the table policy: plain calls, some beside each other, one of them asked twice. */
import { defineHarness } from "../harness/harness.ts";
import type { RunChoice } from "../run/options.ts";
import { train } from "../training/train.ts";
import { ask, askStream, type Given } from "./plain-client.ts";
import { tableAgent } from "./table-training.ts";

const user = (content: string): Given => ({ role: "user", content });

export const scriptedHarness = defineHarness({
  scenarios: ["refund order", "card broken", "order late", "help order"].map((content) => ({ id: content, content })),
  async run(access) {
    const opening = user(access.scenario.content);
    const first = await ask(access, [opening]);
    await ask(access, [opening]);
    const on = (words: string) => [opening, first, user(words)];
    const [a, b] = await Promise.all([ask(access, on("ok really")), askStream(access, on("thanks well"))]);
    return [first, a, b].filter(({ content }) => content.includes("please")).length;
  },
});

export async function harnessRun(options: RunChoice) {
  const { agent } = tableAgent();
  const { run } = await train({
    ...{ agent, harness: scriptedHarness, steps: 8, groupsPerStep: 2, groupSize: 3, learningRate: 0.2, seed: 3 },
    ...{ checkpoint: { every: 2, keep: 2 }, trajectories: { every: 3 } },
    ...options,
  });
  return run;
}
