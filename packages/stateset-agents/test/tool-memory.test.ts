/** Episodes of an agent that acts leave nothing behind: a few hundred here, ten thousand with `npm run soak`. */
import { getEventListeners } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { z } from "zod";
import { MultiTurnAgent } from "../src/agent/multi-turn-agent.ts";
import type { ConversationSession } from "../src/agent/session.ts";
import { TaskEnvironment } from "../src/environment/task-environment.ts";
import { personaUser } from "../src/environment/user/persona.ts";
import { parseOptions } from "../src/options.ts";
import { openPolicy } from "../src/policy/open-policy.ts";
import { createRandom } from "../src/random.ts";
import { rewardFunction } from "../src/reward/define-reward.ts";
import { emptyReport } from "../src/rollout/report.ts";
import { environmentRollout, sampleGroups } from "../src/rollout/rollout.ts";
import { rolloutShape } from "../src/rollout/settings.ts";
import { callFormats } from "../src/tool/format/choose-format.ts";
import { tool } from "../src/tool/tool.ts";

const episodes = process.env.STATESET_SOAK ? 10_000 : 160;
const batch = 40;
/** Beyond it something is kept of every episode: each has a result of this size. */
const resultBytes = 1000;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const { print } = callFormats.hermes;
const call = (name: string, args: object) => print([{ name, arguments: JSON.stringify(args) }]);
const replies = [
  call("own", {}),
  `${call("own", {})}\n${call("take", { n: 1 })}`,
  call("take", { n: "many" }),
  call("hang", {}),
  call("none", {}),
  '<tool_call>{"name": "take',
  "Which one is it?",
  "Done.",
];

it("memory stays flat over many episodes, and nothing listens to the run's signal afterwards", async () => {
  const random = createRandom(1);
  const sessions: WeakRef<ConversationSession>[] = [];
  class Watched extends MultiTurnAgent {
    override startConversation(...args: Parameters<MultiTurnAgent["startConversation"]>) {
      const session = super.startConversation(...args);
      sessions.push(new WeakRef(session));
      return session;
    }
  }
  const policy = await openPolicy({
    model: "stub://m",
    stub: { replies: () => replies[random.below(replies.length)]! },
  });
  const tools = [
    tool({ name: "own", execute: () => random.next().toString().repeat(300).slice(0, resultBytes) }),
    tool({ name: "hang", timeoutMs: 1, execute: () => new Promise(() => {}) }),
  ];
  const agent = new Watched({
    policy,
    tools,
    maxToolSteps: 3,
    maxResultTokens: resultBytes,
    sampling: { maxTokens: 400 },
  });
  const environment = new TaskEnvironment<{ n: number }>({
    tasks: [{ id: "a", state: { n: 9 }, expect: { state: { n: 8 } } }],
    tools: [
      {
        ...{ name: "take", parameters: z.object({ n: z.number() }) },
        run: ({ n }, args) => ({ state: { n: n - args.n }, result: "ok" }),
      },
    ],
    user: personaUser({ goal: "Take one.", patience: 1 }),
    maxTurns: 6,
  });
  const settings = parseOptions(z.strictObject(rolloutShape), {}, "test");
  const reward = rewardFunction({ name: "one" }, () => 1);
  const rollout = environmentRollout({ agent, environment, reward, settings, learn: true });
  const { signal } = new AbortController();
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };

  let played = 0;
  let calls = 0;
  let before = 0;
  while (played < episodes) {
    const request = { id: `g${played}`, scenario: environment.scenarios[0]!, size: batch, seed: played };
    const [group] = await sampleGroups(rollout, [request], { report: emptyReport(), minimum: 1, signal });
    played += group!.trajectories.length;
    for (const { turns } of group!.trajectories) calls += turns.filter(({ role }) => role === "tool").length;
    // What is made once, such as compiled code, is made by then.
    if (before === 0 && played >= episodes / 4) before = heap();
  }
  const grown = heap() - before;
  await new Promise(setImmediate);
  collect();
  if (process.env.STATESET_SOAK)
    console.log(`${played} episodes, ${calls} calls: the heap grew by ${(grown / 1e6).toFixed(2)} MB`);
  expect(calls).toBeGreaterThan(episodes);
  // Far below what the results alone take.
  expect(grown).toBeLessThan(Math.max(2e6, (calls * resultBytes) / 20));
  expect(sessions.filter((one) => one.deref() !== undefined).length).toBeLessThan(3 * batch);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
}, 3_600_000);
