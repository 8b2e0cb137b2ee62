import { randomInt } from "node:crypto";
import { z } from "zod";
import type { Turn } from "../conversation/trajectory.ts";
import { describeValue } from "../describe.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { createRandom, seedOf } from "../random.ts";
import {
  Environment,
  type EnvironmentState,
  type ResetOptions,
  type StepOptions,
  type StepResult,
} from "./environment.ts";
import { mentions } from "./mentions.ts";
import { awaitsReply, givenTurns } from "./opening.ts";
import { type ConversationScenarioInput, parseScenario, requireDistinctIds } from "./parse-scenario.ts";
import type { ConversationScenario } from "./scenario.ts";
import { describeUser, firstWords, nextWords, type User, userSchema } from "./user/user.ts";

/** A phrase (whole words, case ignored), a regular expression, or a function of the reply. */
export type EndCondition =
  | string
  | RegExp
  | ((reply: Turn, state: EnvironmentState<ConversationScenario>) => boolean | Promise<boolean>);

export interface ConversationEnvironmentOptions {
  scenarios: readonly ConversationScenarioInput[];
  /** Replies of the agent after which a conversation is cut off. Default 10. */
  maxTurns?: number | undefined;
  /** reset() without a scenario: take them in an order shuffled by the seed. Default false: in the given order. */
  randomizeScenarios?: boolean | undefined;
  /** A reply that meets one of these ends the conversation, before the scenario's user turns are used up. */
  endWhen?: readonly EndCondition[] | undefined;
  /** Who talks to the agent, until it hangs up. Default: the scenario's `userResponses`. A scenario then says the first words at most. */
  user?: User | undefined;
}

const optionsSchema = z.strictObject({
  scenarios: z.array(z.unknown()),
  maxTurns: z.int().min(1).default(10),
  randomizeScenarios: z.boolean().default(false),
  endWhen: z
    .array(
      z.union(
        [
          z.string().min(1),
          z.instanceof(RegExp),
          z.custom<Extract<EndCondition, (...args: never[]) => unknown>>((value) => typeof value === "function"),
        ],
        "a phrase, a regular expression or a function was expected",
      ),
    )
    .default([]),
  user: userSchema.optional(),
});

/**
 * Plays scripted users: each scenario's `userResponses` are said in order, one after every reply of the agent; after its `messages`, where
 * the conversation has begun already.
 *
 * @example
 * const environment = new ConversationEnvironment({ scenarios: [{ id: "late", userResponses: ["My order is late.", "Thanks."] }] });
 * const state = await environment.reset(environment.scenarios[0]);
 * const { userTurn, done } = await environment.step(state, { role: "assistant", content: "Which order is it?" });
 */
export class ConversationEnvironment extends Environment<ConversationScenario> {
  readonly scenarios: readonly ConversationScenario[];
  readonly maxTurns: number;
  readonly #randomize: boolean;
  readonly #endWhen: readonly EndCondition[];
  readonly #user: User | undefined;
  /** The round met last: its order follows from the seed, but shuffling is not for every reset(). */
  #round: { number: number; order: readonly ConversationScenario[] } | undefined;

  constructor(options: ConversationEnvironmentOptions) {
    super();
    const parsed = parseOptions(optionsSchema, options, "ConversationEnvironment");
    if (parsed.scenarios.length === 0) {
      throw new StatesetError("INVALID_SCENARIO", "ConversationEnvironment got no scenarios.", {
        hint: 'Give at least one, such as {id: "refund", userResponses: ["My order is late."]}.',
      });
    }
    const where = (i: number) => `Scenario ${i + 1}`;
    this.scenarios = parsed.scenarios.map((scenario, i) =>
      parseScenario(scenario, where(i), `scenario-${i + 1}`, { hasUser: !!parsed.user }),
    );
    requireDistinctIds(this.scenarios, where);
    this.maxTurns = parsed.maxTurns;
    this.#randomize = parsed.randomizeScenarios;
    this.#endWhen = parsed.endWhen;
    this.#user = parsed.user;
  }

  override describe(): Record<string, unknown> {
    const user = this.#user && { user: describeUser(this.#user) };
    return { ...super.describe(), maxTurns: this.maxTurns, endWhen: this.#endWhen.map(describeValue), ...user };
  }

  override async reset(
    scenario?: ConversationScenario,
    { seed = randomInt(2 ** 32), signal }: ResetOptions = {},
  ): Promise<EnvironmentState<ConversationScenario>> {
    const chosen = scenario ?? this.#choose(seed);
    const given = givenTurns(chosen);
    const answers = awaitsReply(chosen.messages);
    // Scenarios from elsewhere need not be of this kind.
    const own = answers ? undefined : chosen.userResponses?.[0];
    const first =
      own === undefined && !answers && this.#user ? await firstWords(this.#user, chosen, seed, signal) : own;
    if (first === undefined && !answers) {
      throw new StatesetError("INVALID_SCENARIO", `Scenario "${chosen.id}" has no user turn.`, {
        hint: "Give it userResponses; a `prompt` is read by loadScenarios() and by the environment's own list.",
      });
    }
    const turns = first === undefined ? given : [...given, userTurn(first)];
    return { scenario: chosen, turns, replies: 0, seed, done: false, metadata: {} };
  }

  override async step(
    state: EnvironmentState<ConversationScenario>,
    action: Turn,
    { signal }: StepOptions = {},
  ): Promise<StepResult<ConversationScenario>> {
    const replies = state.replies + 1;
    const turns = [...state.turns, action];
    // A user is not asked for words that nobody will hear.
    const met = this.#user !== undefined && (await this.#ends(action, state));
    const next = met ? undefined : await this.#next(state, turns, signal);
    const over = next === undefined || (!this.#user && (await this.#ends(action, state)));
    if (over || replies >= this.maxTurns) {
      const ended = over ? ("done" as const) : ("max-turns" as const);
      return { state: { ...state, turns, replies, done: true, ended }, done: true };
    }
    const turn = userTurn(next);
    return { state: { ...state, turns: [...turns, turn], replies }, userTurn: turn, done: false };
  }

  async #next(
    { scenario, seed, replies }: EnvironmentState<ConversationScenario>,
    turns: readonly Turn[],
    signal: AbortSignal | undefined,
  ): Promise<string | undefined> {
    const { messages, userResponses } = scenario;
    const begun = awaitsReply(messages);
    if (!this.#user) return userResponses?.[begun ? replies : replies + 1];
    const opened = !begun && userResponses.length > 0;
    return nextWords(this.#user, { scenario, seed, turns, opened }, signal);
  }

  /** Consecutive seeds visit every scenario once before any comes again. */
  #choose(seed: number): ConversationScenario {
    const count = this.scenarios.length;
    if (!this.#randomize) return this.scenarios[seed % count]!;
    const number = Math.floor(seed / count);
    if (this.#round?.number !== number) {
      this.#round = { number, order: createRandom(seedOf("scenarios", number)).shuffled(this.scenarios) };
    }
    return this.#round.order[seed % count]!;
  }

  async #ends(reply: Turn, state: EnvironmentState<ConversationScenario>): Promise<boolean> {
    for (const condition of this.#endWhen) {
      if (typeof condition === "function" ? await condition(reply, state) : mentions(reply.content, condition))
        return true;
    }
    return false;
  }
}

function userTurn(content: string): Turn {
  return { role: "user", content };
}
