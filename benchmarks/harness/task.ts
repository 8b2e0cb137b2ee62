/** The shop's questions of what is, as a harness: the tools run in the client, the model answers where training is. */
import type { Scenario, TaskEnvironment } from "stateset-agents";
import { retail } from "stateset-agents/tools";

export interface ShopTool {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
  execute(args: unknown): Promise<string>;
}

export interface Errand {
  question: string;
  tools: ShopTool[];
  /** Whether the answer is the right one, and came by the right way. */
  judge(answer: string): Promise<number>;
}

export interface Shop {
  scenarios: readonly Scenario[];
  errand(scenario: Scenario, seed: number): Promise<Errand>;
}

export function shop(options: { heldOut: boolean; tasks: number }): Shop {
  // A quarter of the domain's tasks are of this class.
  const environment: TaskEnvironment = retail({ ...options, tasks: 4 * options.tasks, level: 1, maxTurns: 6 });
  const scenarios = environment.scenarios.filter(({ topic }) => topic === "lookup").slice(0, options.tasks);
  return { scenarios, errand: (scenario, seed) => errand(environment, scenario, seed) };
}

async function errand(environment: TaskEnvironment, scenario: Scenario, seed: number): Promise<Errand> {
  let state = await environment.reset(scenario as Parameters<TaskEnvironment["reset"]>[0], { seed });
  let last: Promise<unknown> = Promise.resolve();
  /** One after the other, as the state needs it. */
  const inTurn = <T>(act: () => Promise<T>): Promise<T> => {
    const done = last.then(act);
    last = done.catch(() => {});
    return done;
  };
  let calls = 0;
  const execute = (name: string) => (args: unknown) =>
    inTurn(async () => {
      const id = `call${String(++calls).padStart(5, "0")}`;
      const call = { id, type: "function" as const, function: { name, arguments: JSON.stringify(args ?? {}) } };
      if (state.done) return "There is nothing more to do.";
      state = (await environment.step(state, { role: "assistant", content: "", tool_calls: [call] })).state;
      return state.turns.findLast(({ role }) => role === "tool")?.content ?? "";
    });
  return {
    question: state.turns.at(-1)!.content,
    tools: (environment.tools(state) ?? []).map(({ function: { name, description = name, parameters = {} } }) => ({
      ...{ name, description, parameters, execute: execute(name) },
    })),
    judge: (answer) =>
      inTurn(async () => {
        if (!state.done && answer !== "") {
          state = (await environment.step(state, { role: "assistant", content: answer })).state;
        }
        return state.metadata.success === true ? 1 : 0;
      }),
  };
}
