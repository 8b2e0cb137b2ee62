import { z } from "zod";
import { describeList, fingerprint } from "../describe.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { longestTimerMs, parseOptions } from "../options.ts";
import type { CapturedCall } from "./captured-call.ts";

/** What a run of an agent is given. */
export interface HarnessRun<S extends Scenario = Scenario> {
  /** Where its model answers, for this run alone: what OpenAI's clients call the base URL. */
  baseURL: string;
  /** Good for this run alone. */
  apiKey: string;
  /** The model's name. */
  model: string;
  scenario: S;
  /** Whatever the harness draws should follow from it: the same for all conversations of a group. */
  seed: number;
  /** Fires when the run took too long or training stops. */
  signal: AbortSignal;
}

export interface HarnessOptions<S extends Scenario = Scenario> {
  /** What training iterates over: each is run several times, and the runs are compared. */
  scenarios: readonly S[];
  /** Runs the agent on a scenario, to its end. What it returns is the run's reward, where `train()` has none. */
  run(
    run: HarnessRun<S>,
  ): Promise<number | { reward: number; parts?: Record<string, number> | undefined } | undefined> | Promise<void>;
  /** The longest one run may take. One that takes longer, or fails, is begun anew once. Default 600,000. */
  timeoutMs?: number | undefined;
  /** Told of every call of the model as it was recorded; it must return at once. */
  onCall?: ((call: CapturedCall) => void) | undefined;
}

/** An agent that drives its conversations itself: it calls the model under training as it would any other. */
export interface Harness<S extends Scenario = Scenario> extends Readonly<HarnessOptions<S>> {
  readonly timeoutMs: number;
  /** What it is, for config.json. */
  describe(): Record<string, unknown>;
}

const aFunction = (value: unknown) => typeof value === "function";

const schema = z.strictObject({
  scenarios: z.array(z.looseObject({ id: z.string().min(1) })),
  run: z.custom<HarnessOptions["run"]>(aFunction, "a function was expected"),
  timeoutMs: z.number().positive().max(longestTimerMs).default(600_000),
  onCall: z.custom<NonNullable<HarnessOptions["onCall"]>>(aFunction, "a function was expected").optional(),
});

/**
 * Makes an agent that you have trainable as it is: `run` starts it against the address it is given.
 *
 * @example
 * const harness = defineHarness({
 *   scenarios: [{ id: "a", question: "…" }],
 *   run: async ({ baseURL, apiKey, model, scenario, signal }) => {
 *     const client = new OpenAI({ baseURL, apiKey });
 *     const messages = [{ role: "user", content: scenario.question }];
 *     const { choices } = await client.chat.completions.create({ model, messages }, { signal });
 *     return choices[0].message.content.includes("please") ? 1 : 0;
 *   },
 * });
 * await train({ agent, harness, steps: 40 });
 */
export function defineHarness<S extends Scenario>(options: HarnessOptions<S>): Harness<S> {
  const { scenarios, run, timeoutMs } = parseOptions(schema, options, "defineHarness()");
  const ids = new Set<string>();
  for (const { id } of scenarios) {
    if (ids.has(id)) {
      throw new StatesetError("INVALID_SCENARIO", `Two scenarios of the harness are called "${id}".`, {
        hint: "Give each an id of its own: results name them by it.",
      });
    }
    ids.add(id);
  }
  return {
    ...options,
    timeoutMs,
    describe: () => ({ scenarios: describeList(options.scenarios), run: fingerprint(run), timeoutMs }),
  };
}
