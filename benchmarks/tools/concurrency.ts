/**
 * `npm run bench:waiting`: does the engine stay at work while tools take their time? Many conversations side by side on the starter model,
 * whose every call waits 0 to 500 ms, beside the same whose calls answer at once.
 * --episodes N (200), --slots N (the engine's default), --wait MS (500), --threads N, --json (last line: the rows).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { ConversationEnvironment, createRandom, MultiTurnAgent, rewardFunction, seedOf } from "stateset-agents";
import { openPolicy } from "stateset-agents/policy";
import { tool } from "stateset-agents/tools";
import { z } from "zod";
import { parseOptions } from "../../packages/stateset-agents/src/options.ts";
import { emptyReport } from "../../packages/stateset-agents/src/rollout/report.ts";
import { environmentRollout, sampleGroups } from "../../packages/stateset-agents/src/rollout/rollout.ts";
import { rolloutShape } from "../../packages/stateset-agents/src/rollout/settings.ts";
import { describeMachine } from "../machine.ts";

const { values: flags } = parseArgs({
  options: {
    episodes: { type: "string", default: "200" },
    wait: { type: "string", default: "500" },
    slots: { type: "string" },
    threads: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const [episodes, wait] = [Number(flags.episodes), Number(flags.wait)];

interface Row {
  /** The longest that a call takes. */
  waitMs: number;
  episodes: number;
  calls: number;
  seconds: number;
  /** Of the time that calls took, one after the other. */
  secondsInTools: number;
  /** Of the wall time, the share in which the engine decoded at least one reply, and how many it decoded on the average. */
  busy: number;
  running: number;
  slots: number;
  tokensPerSecond: number;
}

async function measure(waitMs: number): Promise<Row> {
  const policy = await openPolicy({
    ...(flags.threads && { threads: Number(flags.threads) }),
    ...(flags.slots && { slots: Number(flags.slots) }),
  });
  let [calls, inTools] = [0, 0];
  const lookup = tool({
    name: "get_order_status",
    description: "Get the status of an order",
    parameters: z.object({ order_id: z.string() }),
    async execute({ order_id }) {
      calls++;
      const began = performance.now();
      await sleep(createRandom(seedOf(order_id, calls)).next() * waitMs);
      inTools += performance.now() - began;
      return { order_id, status: "shipped" };
    },
  });
  const agent = new MultiTurnAgent({ policy, tools: [lookup], maxToolSteps: 3, sampling: { maxTokens: 64 } });
  const environment = new ConversationEnvironment({
    scenarios: Array.from({ length: episodes }, (_, i) => {
      const number = String(4000 + i);
      return { id: number, userResponses: [`Where is my order ${number}?`, `And order ${i + 7000}?`] };
    }),
  });
  const settings = parseOptions(z.strictObject(rolloutShape), { concurrency: episodes }, "bench");
  const reward = rewardFunction({ name: "none" }, () => 0);
  const rollout = environmentRollout({ agent, environment, reward, settings, learn: false });
  const requests = environment.scenarios.map((scenario, i) => ({ id: `g${i}`, scenario, size: 1, seed: i }));

  const began = performance.now();
  // Weighed by the time between two looks: the clock of a process that is busy does not tick evenly.
  let [seen, busy, running] = [began, 0, 0];
  const look = () => {
    const now = performance.now();
    const { running: decoding } = policy.stats();
    if (decoding > 0) busy += now - seen;
    running += decoding * (now - seen);
    seen = now;
  };
  const timer = setInterval(look, 2);
  await sampleGroups(rollout, requests, { report: emptyReport(), minimum: 1 });
  clearInterval(timer);
  look();
  const wall = performance.now() - began;
  const { slots, sampledTokens } = policy.stats();
  await policy.close();
  return {
    ...{ waitMs, episodes, calls, slots },
    seconds: wall / 1000,
    secondsInTools: inTools / 1000,
    busy: busy / wall,
    running: running / wall,
    tokensPerSecond: sampledTokens / (wall / 1000),
  };
}

const rows = [await measure(0), await measure(wait)];
console.log(describeMachine());
for (const row of rows) {
  console.log(
    `${row.episodes} conversations side by side, calls of 0–${row.waitMs} ms: ${row.calls} calls in ${row.seconds.toFixed(1)} s ` +
      `(${row.secondsInTools.toFixed(0)} s of waiting). The engine decoded ${(100 * row.busy).toFixed(1)}% of the time, ` +
      `${row.running.toFixed(1)} of ${row.slots} slots on the average, ${row.tokensPerSecond.toFixed(0)} tokens/s.`,
  );
}
if (flags.json) console.log(JSON.stringify(rows));
