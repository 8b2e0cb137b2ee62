/** The checks of the domains can be trusted: who solves a task scores, and nobody else does. */
import { describe, expect, it } from "vitest";
import type { Turn } from "../../conversation/trajectory.ts";
import { createRandom, type Random, seedOf } from "../../random.ts";
import { heldOutProblems } from "../../training/held-out.ts";
import type { EnvironmentState } from "../environment.ts";
import type { StatefulMetadata } from "../task/stateful.ts";
import type { Task, TaskEnvironment } from "../task-environment.ts";
import { booking } from "./booking/booking.ts";
import { dateOf, spokenDate, spokenTime, timeOf } from "./booking/when.ts";
import { type DomainOptions, oracleReply, type SolutionStep, taskClasses } from "./domain.ts";
import { retail } from "./retail/retail.ts";

type State = EnvironmentState<Task>;
type Player = (state: State, environment: TaskEnvironment) => Turn;

const domains = { retail, booking };
const levels = [1, 2, 3] as const;
const cases = Object.keys(domains).flatMap((name) => levels.map((level) => [name, level] as const)) as [
  keyof typeof domains,
  1 | 2 | 3,
][];
const both = (name: keyof typeof domains, level: 1 | 2 | 3) =>
  [false, true].map((heldOut) => domains[name]({ level, heldOut }));

const say = (content: string): Turn => ({ role: "assistant", content });
const call = (name: string, args: object, id = "x"): Turn => ({
  ...say(""),
  tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
});

async function play(environment: TaskEnvironment, task: Task, player: Player, seed = 0): Promise<StatefulMetadata> {
  let state = await environment.reset(task, { seed });
  while (!state.done) ({ state } = await environment.step(state, player(state, environment)));
  return state.metadata as unknown as StatefulMetadata;
}

/** The share of tasks that a player solves, and their mean progress. */
async function score(environments: readonly TaskEnvironment[], player: Player, seed = 0) {
  const ends = await Promise.all(
    environments.flatMap((one) => one.scenarios.map((task) => play(one, task, player, seed))),
  );
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return {
    success: mean(ends.map((end) => Number(end.success))),
    progress: mean(ends.map((end) => end.progress)),
    ends,
  };
}

/** Everything that could be claimed, said at once; and each thing alone. */
const claims = [
  "Your order is cancelled.",
  "Your order is refunded.",
  "I have exchanged it. Your new item is on its way.",
  "Your table is booked.",
  "You have your tickets, I bought them.",
  "Sorry, I cannot do that: it is out of stock, sold out, more than 30 days ago, of another email, and takes no reservations.",
  "It is open.",
  "It is shipped.",
  "It is delivered.",
  "It is lost.",
];

/** All texts in a value. */
const textsIn = (value: unknown): string[] =>
  typeof value === "string"
    ? [value]
    : typeof value === "object" && value !== null
      ? Object.values(value).flatMap(textsIn)
      : [];

/** Any tool, with anything that stands in the state or was said; some claim in the end. */
function randomPlayer(random: Random): Player {
  return (state, environment) => {
    const one = <T>(from: readonly T[]) => from[random.below(from.length)]!;
    if (random.next() < 0.3) return say(one(claims));
    const { name, parameters } = one(environment.tools(state)!).function;
    const { state: world } = state.metadata as unknown as StatefulMetadata;
    const said = state.turns
      .filter(({ role }) => role === "user")
      .flatMap(({ content }) => content.match(/[\w@.-]*\w/g) ?? []);
    const values = random.next() < 0.5 ? textsIn(world) : said;
    const names = Object.keys(parameters!.properties as object);
    return call(name, Object.fromEntries(names.map((key) => [key, one(values)])), `c${state.turns.length}`);
  };
}

/** A write that nobody asked for. */
function surplus({ scenario, metadata }: State): Turn {
  const solution = scenario.metadata!.solution as readonly SolutionStep[];
  const asked = JSON.stringify(solution);
  const { state: world } = metadata as unknown as StatefulMetadata;
  if ("orders" in world) {
    const other = Object.values(world.orders as Record<string, { order_id: string; status: string }>).find(
      ({ order_id, status }) => !asked.includes(order_id) && status === "open",
    )!;
    return call("cancel_order", { order_id: other.order_id }, "surplus");
  }
  const other = (world.restaurants as { restaurant_name: string }[]).find(
    ({ restaurant_name }) => !asked.includes(restaurant_name),
  )!;
  return call("ReserveRestaurant", { ...other, date: "2019-03-20", time: "20:00", party_size: "2" }, "surplus");
}

describe.each(cases)("%s, level %i", (name, level) => {
  const environments = both(name, level);

  it("has 60 tasks and more, a quarter of each class, in training as held out", () => {
    for (const { scenarios } of environments) {
      expect(scenarios.length).toBeGreaterThanOrEqual(60);
      for (const kind of taskClasses)
        expect(scenarios.filter(({ topic }) => topic === kind)).toHaveLength(scenarios.length / 4);
      expect(new Set(scenarios.map(({ prompt, ...rest }) => prompt + JSON.stringify(rest))).size).toBe(
        scenarios.length,
      );
    }
  });

  it("is solved by the oracle, every task, in whatever order they are played", async () => {
    const { ends } = await score(environments, oracleReply);
    expect(ends.filter(({ success }) => !success).map(({ why }) => why)).toEqual([]);
  });

  it("gives nothing for nothing, and nothing for claims", async () => {
    const nothing = await score(environments, () => say(""));
    expect([nothing.success, nothing.progress]).toEqual([0, 0]);
    for (const claim of [...claims, claims.join(" ")]) {
      const talker = await score(environments, ({ turns }) => say(`${turns.at(-1)!.content} ${claim}`));
      expect([claim, talker.success, talker.progress]).toEqual([claim, 0, 0]);
    }
  });

  it("gives random tools less than 0.02", async () => {
    const means: number[] = [];
    for (let seed = 0; seed < 10; seed++) {
      means.push((await score(environments, randomPlayer(createRandom(seedOf(name, level, seed))), seed)).success);
    }
    expect(means.reduce((sum, value) => sum + value, 0) / means.length).toBeLessThan(0.02);
  });

  it("gives nothing for the right write and a forbidden one, before or after it", async () => {
    const before: Player = (state) => {
      const began = state.turns.some(({ tool_call_id }) => tool_call_id === "surplus");
      return began ? oracleReply({ ...state, replies: state.replies - 1 }) : surplus(state);
    };
    const after: Player = (state) => {
      const { length } = state.scenario.metadata!.solution as readonly unknown[];
      if (state.replies < length - 1) return oracleReply(state);
      return state.replies === length - 1 ? surplus(state) : oracleReply({ ...state, replies: length - 1 });
    };
    for (const player of [before, after]) {
      const { success, progress, ends } = await score(environments, player);
      expect([success, progress]).toEqual([0, 0]);
      for (const { writes, why } of ends) {
        expect(writes.length).toBeGreaterThan(0);
        expect(why).toContain("which was not asked for");
      }
    }
  });

  it("gives nothing for the right deeds with a wrong thing said beside the right one", async () => {
    const { ends } = await score(environments, (state) => {
      const reply = oracleReply(state);
      const forbidden = (state.scenario as { forbid?: { said?: string[] } }).forbid?.said;
      return reply.tool_calls || !forbidden ? reply : say(`${reply.content} ${forbidden[0]}`);
    });
    const tasks = environments.flatMap(({ scenarios }) => scenarios as readonly { forbid?: { said?: string[] } }[]);
    for (const [i, { success }] of ends.entries()) expect(success).toBe(!tasks[i]!.forbid?.said);
  });

  it("holds out entities and phrasings: no text and no id of one side stands on the other", () => {
    const [training, heldOut] = environments as [TaskEnvironment, TaskEnvironment];
    expect(heldOutProblems(training.scenarios, heldOut.scenarios)).toEqual([]);
    // What people say, without what fills it in.
    const bare = ({ goal }: Task) => goal.replace(/\d+|[A-Z]\w+( [A-Z]\w+)*/g, "#");
    const own = new Set(training.scenarios.map(bare));
    expect(heldOut.scenarios.filter((task) => own.has(bare(task))).map(({ goal }) => goal)).toEqual([]);
    const ids = ({ scenarios }: TaskEnvironment) =>
      scenarios.flatMap((task) => {
        const { orders, restaurants } = (
          task as unknown as { state: { orders?: object; restaurants?: { restaurant_name: string; city: string }[] } }
        ).state;
        return orders ? Object.keys(orders) : restaurants!.flatMap((one) => [one.restaurant_name, one.city]);
      });
    const known = new Set(ids(training));
    expect(ids(heldOut).filter((id) => known.has(id))).toEqual([]);
  });

  it("is the same for the same seed, and other tasks for another", () => {
    const make = (more: DomainOptions) => domains[name]({ level, tasks: 8, ...more }).scenarios;
    expect(make({})).toEqual(make({}));
    expect(make({ seed: 1 }).map(({ goal }) => goal)).not.toEqual(make({}).map(({ goal }) => goal));
    expect(make({ tasks: 4 })).toEqual(make({}).slice(0, 4));
  });

  it("has rules in the system prompt, and says nothing of the solution to the agent", () => {
    for (const { context, systemPrompt, tools } of environments[0]!.scenarios) {
      expect(context!.length).toBeGreaterThan(50);
      expect([systemPrompt, tools]).toEqual([undefined, undefined]);
    }
  });
});

it.each(levels)("gives nothing in the shop to who writes without having looked, level %i", async (level) => {
  const { ends } = await score(both("retail", level), (state) => {
    const solution = state.scenario.metadata!.solution as readonly SolutionStep[];
    const writes = (step: SolutionStep) => !("call" in step) || /cancel|refund|exchange/.test(step.call);
    const blind = solution.filter(writes)[state.replies];
    if (!blind || "say" in blind) return say(blind?.say ?? "");
    return call(blind.call, blind.arguments, `c${state.replies}`);
  });
  expect(ends.filter(({ writes }) => writes.length > 0).length).toBeGreaterThan(20);
  expect(ends.filter(({ success }) => success)).toEqual([]);
});

describe("options of a domain", () => {
  it("are checked by name", () => {
    expect(() => retail({ levle: 1 } as DomainOptions)).toThrow(
      'Unknown option "levle" in retail(). Did you mean "level"?',
    );
    for (const make of [retail, booking]) expect(() => make({ tasks: 100_000 })).toThrow("().tasks: at most 10,000");
    expect(() => booking({ level: 4 as never })).toThrow("1, 2 or 3 was expected");
    expect(() =>
      oracleReply({ scenario: { id: "a" }, turns: [], replies: 0, seed: 0, done: false, metadata: {} }),
    ).toThrow("has no solution for reply 1");
  });
});

it("reads dates and times as people write them", () => {
  for (let day = 1; day <= 31; day++) expect(dateOf(spokenDate(day))).toBe(`2019-03-${String(day).padStart(2, "0")}`);
  for (let hour = 1; hour <= 23; hour++) expect(timeOf(spokenTime(hour))).toBe(`${String(hour).padStart(2, "0")}:00`);
  expect(["2019-03-08", "the 8th", "8", "8th of March"].map(dateOf)).toEqual(Array(4).fill("2019-03-08"));
  expect(["2019-04-08", "", "soon", "45", "8th or 9th"].map(dateOf)).toEqual(Array(5).fill(undefined));
  expect(["19:00", "7 pm", "7:00 PM", "7pm"].map(timeOf)).toEqual(Array(4).fill("19:00"));
  expect(["12 am", "12:30 pm", "25:00", "19:75", "noon"].map(timeOf)).toEqual([
    "00:00",
    "12:30",
    undefined,
    undefined,
    undefined,
  ]);
});
