import { describe, expect, it } from "vitest";
import type { Turn } from "../conversation/trajectory.ts";
import { ConversationEnvironment, type ConversationEnvironmentOptions } from "./conversation-environment.ts";
import { conversationConfigs, customerService, heldOutConfigs, sales, technicalSupport } from "./preset/index.ts";

const say = (content: string): Turn => ({ role: "assistant", content });
const late = { id: "late", userResponses: ["My order is late.", "It is 5.", "Thanks."] };

async function play(environment: ConversationEnvironment, replies: string[]) {
  let state = await environment.reset(environment.scenarios[0], { seed: 1 });
  for (const reply of replies) {
    if (state.done) break;
    ({ state } = await environment.step(state, say(reply)));
  }
  return state;
}

describe("ConversationEnvironment", () => {
  it("says the user's turns in order and is done after the last reply", async () => {
    const environment = new ConversationEnvironment({ scenarios: [late] });
    const first = await environment.reset(environment.scenarios[0], { seed: 1 });
    expect(first.turns).toEqual([{ role: "user", content: "My order is late." }]);
    const next = await environment.step(first, say("Which order?"));
    expect(next).toMatchObject({ done: false, userTurn: { role: "user", content: "It is 5." } });
    const state = await play(environment, ["a", "b", "c", "d"]);
    expect(state.turns.map((turn) => turn.content)).toEqual([
      "My order is late.",
      "a",
      "It is 5.",
      "b",
      "Thanks.",
      "c",
    ]);
    expect(state).toMatchObject({ done: true, ended: "done", replies: 3 });
  });

  it("does not change the state it is given, and its state is plain data", async () => {
    const environment = new ConversationEnvironment({ scenarios: [late] });
    const state = await environment.reset(environment.scenarios[0], { seed: 1 });
    const copy = structuredClone(state);
    const [a, b] = await Promise.all([environment.step(state, say("a")), environment.step(state, say("b"))]);
    expect(state).toEqual(copy);
    expect([a.state.turns[1]!.content, b.state.turns[1]!.content]).toEqual(["a", "b"]);
  });

  it("cuts off at maxTurns and says so", async () => {
    const environment = new ConversationEnvironment({ scenarios: [late], maxTurns: 2 });
    expect(await play(environment, ["a", "b", "c"])).toMatchObject({ replies: 2, done: true, ended: "max-turns" });
  });

  it.each([
    ["a phrase", "good bye", "Well, Good  bye!", "goodbyes"],
    ["a global expression", /ticket \d+/g, "I opened ticket 42.", "no ticket"],
    ["a function", (reply: Turn) => reply.content.length > 10, "a long reply", "short"],
  ])("ends early on %s", async (_, condition, ends, goesOn) => {
    const environment = new ConversationEnvironment({ scenarios: [late], endWhen: [condition] });
    for (let again = 0; again < 2; again++) {
      expect(await play(environment, [ends])).toMatchObject({ done: true, ended: "done", replies: 1 });
      expect(await play(environment, [goesOn])).toMatchObject({ done: false });
    }
  });

  it("visits every scenario once a round, in an order the seed decides", async () => {
    const scenarios = Array.from({ length: 5 }, (_, i) => ({ id: `s${i}`, userResponses: ["x"] }));
    const visit = (environment: ConversationEnvironment, from: number) =>
      Promise.all(scenarios.map(async (_, i) => (await environment.reset(undefined, { seed: from + i })).scenario.id));
    expect(await visit(new ConversationEnvironment({ scenarios }), 0)).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    const shuffling = new ConversationEnvironment({ scenarios, randomizeScenarios: true });
    const rounds = await Promise.all([0, 5, 10, 15].map((from) => visit(shuffling, from)));
    for (const round of rounds) expect([...round].sort()).toEqual(["s0", "s1", "s2", "s3", "s4"]);
    expect(new Set(rounds.map(String)).size).toBeGreaterThan(1);
    expect(await visit(shuffling, 5)).toEqual(rounds[1]);
  });

  it("takes Python's names and makes up ids that are missing", () => {
    const { scenarios } = new ConversationEnvironment({
      scenarios: [{ user_responses: ["Hi!"], system_prompt: "Be kind." }, { userResponses: ["Hello."] }],
    });
    expect(scenarios).toEqual([
      { id: "scenario-1", userResponses: ["Hi!"], systemPrompt: "Be kind." },
      { id: "scenario-2", userResponses: ["Hello."] },
    ]);
  });

  it.each([
    [[], "got no scenarios"],
    [[{ id: "a", userResponses: [] }], 'Scenario 1 ("a") has no user turn'],
    [[{ id: "a" }], 'Scenario 1 ("a") has no user turn'],
    [[late, { id: "b", userResponses: ["x", " "] }], 'Scenario 2 ("b").userResponses.1: an empty user turn'],
    [
      [{ id: "a", userRespones: ["x"] }],
      'Unknown option "userRespones" in Scenario 1 ("a"). Did you mean "userResponses"?',
    ],
    [[{ id: "a", userResponses: ["x"], user_responses: ["y"] }], 'both "user_responses" and "userResponses"'],
    [["hi"], "Scenario 1 is not an object"],
    [[late, late], 'Scenario 2 has the id "late", which Scenario 1 has too'],
  ])("refuses %j", (scenarios, message) => {
    const make = () => new ConversationEnvironment({ scenarios } as ConversationEnvironmentOptions);
    expect(make).toThrow(message);
    expect(make).toThrow(expect.objectContaining({ code: "INVALID_SCENARIO" }));
  });

  it("names misspelt options", () => {
    const options = { scenarios: [late], maxTurn: 3 } as unknown as ConversationEnvironmentOptions;
    expect(() => new ConversationEnvironment(options)).toThrow('Did you mean "maxTurns"?');
  });
});

describe("presets", () => {
  it.each([
    ["customerService", customerService],
    ["technicalSupport", technicalSupport],
    ["sales", sales],
  ] as const)("%s has enough scenarios, and its held-out openers are not in training", (name, make) => {
    expect(make().scenarios.length).toBeGreaterThanOrEqual(10);
    const heldOut = heldOutConfigs[name].scenarios;
    expect(make({ heldOut: true }).scenarios.length).toBe(heldOut.length);
    expect(heldOut.length).toBeGreaterThanOrEqual(30);
    const opener = ({ userResponses }: { userResponses?: readonly string[] | undefined }) => userResponses![0]!;
    const openers = new Set(conversationConfigs[name].scenarios.map(opener));
    for (const scenario of heldOut) expect(openers).not.toContain(opener(scenario));
    expect(new Set(heldOut.map(opener)).size).toBe(heldOut.length);
    expect(make({ maxTurns: 2 }).maxTurns).toBe(2);
  });
});
