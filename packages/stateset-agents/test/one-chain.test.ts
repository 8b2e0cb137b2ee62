/**
 * Whatever a model samples as a call, the conversation goes on as one chain of the ids that were sampled, and learning sees the log-probs
 * they were sampled with. Some hundred calls of each format here; ten thousand with `npm run soak`.
 */
import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../src/agent/multi-turn-agent.ts";
import { buildTokenTree } from "../src/conversation/token-tree.ts";
import type { Trajectory } from "../src/conversation/trajectory.ts";
import { ConversationEnvironment } from "../src/environment/conversation-environment.ts";
import type { Policy } from "../src/policy/policy.ts";
import { createRandom, seedOf } from "../src/random.ts";
import { rewardFunction } from "../src/reward/define-reward.ts";
import { callText, damaged } from "../src/test-support/damaged-calls.ts";
import { scripted } from "../src/test-support/scripted-policy.ts";
import { createTablePolicy } from "../src/test-support/table-policy.ts";
import { type CallFormatName, callFormatNames } from "../src/tool/format/call-format.ts";
import { callFormats, toolsOfTemplate } from "../src/tool/format/choose-format.ts";
import { tool } from "../src/tool/tool.ts";
import { train } from "../src/training/train.ts";
import { tinyChatModel } from "./tiny-chat-model.ts";

const wanted = process.env.STATESET_SOAK ? 10_000 : 150;

/** Words of a few calls, which is all that this policy can say. */
function tableOf(format: CallFormatName): { policy: Policy; texts: string[] } {
  const random = createRandom(seedOf("table", format));
  const texts = Array.from({ length: 30 }, () => callText(callFormats[format], random));
  const words = [...new Set(texts.flatMap((text) => text.split(/\s+/).filter(Boolean)))];
  return { policy: createTablePolicy({ words, contextLength: 8192, spread: 1 }), texts };
}

const tools = [
  tool({ name: "get_order", parameters: { type: "object", required: ["order_id"] }, execute: () => "It is shipped." }),
  tool({ name: "cancel_order", execute: () => ({ done: [true, "<|im_end|>"] }) }),
];
const environment = new ConversationEnvironment({
  scenarios: [{ id: "a", userResponses: ["Where is it?", "And now?"] }],
});
const reward = rewardFunction(
  { name: "length" },
  ({ turns }) => turns.reduce((sum, one) => sum + one.content.length, 0) % 11,
);

/** Plays and learns until so many calls were made; returns how many. */
async function playCalls(
  policy: Policy,
  format: CallFormatName,
  text: (random: () => number) => string,
): Promise<number> {
  let calls = 0;
  for (let round = 0; calls < wanted; round++) {
    const random = createRandom(seedOf(format, round));
    const said: string[] = [];
    const speaking = scripted(policy, () => {
      const whole = policy.tokenizer.encode(text(random.next), { control: true });
      const ids =
        random.next() < 0.5
          ? Array.from(whole)
          : damaged(whole, random, policy.tokenizer.vocabSize, policy.model.endTokens);
      const cut = random.next() < 0.25;
      const spoken = cut ? ids.slice(0, 1 + random.below(ids.length)) : ids;
      said.push([...spoken, ...(cut ? [] : [policy.model.endTokens[0]!])].join(" "));
      return { text: spoken, cut };
    });
    const agent = new MultiTurnAgent({ policy: speaking, tools, callFormat: format, maxToolSteps: 5 });
    const played: Trajectory[] = [];
    const { run } = await train({
      ...{
        agent,
        environment,
        reward,
        steps: 1,
        groupsPerStep: 1,
        groupSize: 8,
        dir: false,
        seed: round,
        recall: false,
      },
      ...{ learningRate: 1e-3, maxTurns: 2 },
      callbacks: {
        async onRollouts({ groups }) {
          played.push(...groups.flatMap(({ trajectories }) => trajectories));
          // Now, while the policy is the one that sampled.
          for (const { chains } of played) await expectSameLogprobs(policy, chains[0]!);
        },
      },
    });
    expect(played).toHaveLength(8);
    for (const { chains, turns } of played) {
      expect(chains.map(({ started }) => started)).toEqual(["first-prompt"]);
      calls += turns.reduce((sum, { tool_calls = [] }) => sum + tool_calls.length, 0);
    }
    expect(played.flatMap(({ chains: [chain] }) => sampledIn(chain!)).sort()).toEqual(said.sort());
    expect(run.metrics[0]).toMatchObject({ firstRatioMax: 1 });
  }
  return calls;
}

type Chain = Trajectory["chains"][number];

/** The ids of each reply. */
function sampledIn({ tokens, turn }: Chain): string[] {
  const replies = new Map<number, number[]>();
  for (const [place, index] of turn.entries()) {
    if (index >= 0) replies.set(index, [...(replies.get(index) ?? []), tokens[place]!]);
  }
  return [...replies.values()].map((ids) => ids.join(" "));
}

/** Every ratio is exactly 1, not the largest alone. */
async function expectSameLogprobs(policy: Policy, { tokens, learn, logprobs }: Chain): Promise<void> {
  const { tree, positions } = buildTokenTree([{ tokens, learn }]);
  const pass = await policy.forward(tree, { grad: false, temperature: 1 });
  const scored = Float32Array.from(positions[0]!, (place) => pass.logprobs[place]!);
  expect(scored.filter((_, i) => learn[i] === 1)).toEqual(logprobs.filter((_, i) => learn[i] === 1));
}

describe.each(callFormatNames)("calls as %s writes them, damaged and cut off", (name) => {
  const limit = process.env.STATESET_SOAK ? 3_600_000 : 120_000;

  it(
    "go on as one chain, first ratio 1, on the embedded engine",
    async () => {
      const policy = await tinyChatModel(name);
      try {
        expect(toolsOfTemplate(policy.tokenizer).format.name).toBe(name);
        const random = createRandom(seedOf("texts", name));
        const began = performance.now();
        const calls = await playCalls(policy, name, () => callText(callFormats[name], random));
        if (process.env.STATESET_SOAK) report(name, "engine", calls, began);
      } finally {
        await policy.close();
      }
    },
    limit,
  );

  it(
    "and on a table of words",
    async () => {
      const { policy, texts } = tableOf(name);
      const began = performance.now();
      const calls = await playCalls(policy, name, (next) => texts[Math.floor(next() * texts.length)]!);
      if (process.env.STATESET_SOAK) report(name, "table", calls, began);
    },
    limit,
  );
});

function report(format: string, where: string, calls: number, began: number): void {
  console.log(
    `${format}, ${where}: ${calls} calls, one chain each, in ${Math.round((performance.now() - began) / 1000)} s`,
  );
}
