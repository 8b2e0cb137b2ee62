/** A run of an agent that acts, on the table policy: tools of its own, which take time, beside those of a task with a state. */
import { setTimeout as sleep } from "node:timers/promises";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { TaskEnvironment } from "../environment/task-environment.ts";
import { personaUser } from "../environment/user/persona.ts";
import type { RunChoice } from "../run/options.ts";
import { tool } from "../tool/tool.ts";
import { train } from "../training/train.ts";
import { createTablePolicy } from "./table-policy.ts";

interface Shelf {
  left: number;
}

/** Words that are calls, as Python writes them: the table policy samples whole words. */
const words = ["look()", "take(n=1)", "take(n=2)", "count()", "count(of=1)", "done"];

export function actingParts() {
  const policy = createTablePolicy({ words, spread: 1, seed: 4, contextLength: 4096 });
  const count = tool({
    name: "count",
    // A function of what it is given: a run that is resumed asks it the same again.
    async execute(_, { messages }) {
      await sleep(1 + (messages.length % 4));
      return { heard: messages.length };
    },
  });
  const agent = new MultiTurnAgent({
    ...{ policy, tools: [count], callFormat: "pythonic", maxToolSteps: 2, sampling: { maxTokens: 3 } },
  });
  const environment = new TaskEnvironment<Shelf>({
    tasks: [3, 4, 5, 6].map((left) => ({ id: `shelf-${left}`, state: { left }, expect: { state: { left: 2 } } })),
    tools: [
      { name: "look", run: ({ left }) => ({ result: left }) },
      {
        name: "take",
        parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
        run({ left }, { n }) {
          if (n > left) throw new Error("there are not so many");
          return { state: { left: left - n }, result: "done" };
        },
      },
    ],
    user: personaUser({ goal: "count please", patience: 1 }),
    maxTurns: 4,
  });
  return { policy, agent, environment };
}

export async function actingRun(options: RunChoice) {
  const { agent, environment } = actingParts();
  const { run } = await train({
    ...{ agent, environment, steps: 12, groupsPerStep: 2, groupSize: 4, learningRate: 0.2, seed: 3 },
    ...{ credit: "state", checkpoint: { every: 2, keep: 2 }, trajectories: { every: 3 } },
    ...options,
  });
  return run;
}
