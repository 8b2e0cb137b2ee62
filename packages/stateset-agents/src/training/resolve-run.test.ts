/** config.json says everything that decides what a run does: whatever is changed shows up as a change, and nothing else does. */
import { describe, expect, it } from "vitest";
import { chatModel } from "../../test/cli.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { createJudge } from "../endpoint/judge.ts";
import { openaiJudgeModel } from "../endpoint/openai-judge-model.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { PolitenessReward } from "../reward/builtin/politeness.ts";
import { CompositeReward } from "../reward/composite-reward.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { JudgeReward } from "../reward/judge/judge-reward.ts";
import { changesBetween, type RunConfig } from "../run/config.ts";
import { resolveRun } from "./resolve-run.ts";
import type { TrainOptions } from "./train-options.ts";

const model = chatModel();
const scenarios = (text: string) => [{ id: "a", userResponses: ["hello", text] }];
const judge = (rubric: string) =>
  new JudgeReward({
    rubric,
    judge: createJudge({
      model: openaiJudgeModel({ model: "judge", baseURL: "http://127.0.0.1:9/v1", apiKey: "sk-secret" }),
    }),
  });

const begun = {
  prompt: "Be polite.",
  alpha: 16,
  temperature: 1,
  scenario: "thanks",
  heldOut: "bye",
  rubric: "Is it kind?",
  weight: 0.5,
  bonus: ((turns) => turns.length) as (turns: readonly unknown[]) => number,
  steps: 3,
};

async function configOf(changed: Partial<typeof begun>): Promise<RunConfig> {
  const { prompt, alpha, temperature, scenario, heldOut, rubric, weight, bonus, steps } = { ...begun, ...changed };
  const agent = new MultiTurnAgent({
    model: await model,
    systemPrompt: prompt,
    lora: { rank: 2, alpha },
    sampling: { temperature, maxTokens: 4 },
  });
  try {
    const options = {
      agent,
      environment: new ConversationEnvironment({ scenarios: scenarios(scenario) }),
      heldOut: scenarios(heldOut),
      reward: new CompositeReward([
        new PolitenessReward({ weight }),
        judge(rubric),
        rewardFunction({ name: "bonus" }, ({ turns }) => bonus(turns)),
        rewardFunction({ name: "own" }, bonus as never),
      ]),
      steps,
    } satisfies TrainOptions;
    return { version: 2, id: "x", ...(await resolveRun(options)).facts };
  } finally {
    await agent.close();
  }
}

describe("the configuration of a run", () => {
  const first = configOf({});

  it.each<[string, Partial<typeof begun>, string]>([
    ["the prompt", { prompt: "Be brief." }, "agent.systemPrompt"],
    ["LoRA's alpha", { alpha: 32 }, "model.lora.alpha"],
    ["the temperature", { temperature: 0.8 }, "agent.sampling.temperature"],
    ["the scenarios", { scenario: "thank you" }, "environment.scenarios.fingerprint"],
    ["the held-out scenarios", { heldOut: "ciao" }, "heldOut.scenarios.fingerprint"],
    ["a rubric", { rubric: "Is it short?" }, "reward.parts.1.rubric"],
    ["a weight", { weight: 0.6 }, "reward.parts.0.weight"],
    ["the source of a reward", { bonus: (turns) => turns.length + 1 }, "reward.parts.3.source"],
    ["a setting", { steps: 4 }, "settings.steps"],
  ])("shows another value of %s", async (_, changed, path) => {
    const changes = changesBetween(await first, await configOf(changed));
    expect(changes.map((change) => change.path)).toContain(path);
    expect(changes.length).toBeLessThanOrEqual(2);
  });

  it("is the same for the same run, and holds no secret", async () => {
    const [one, two] = [await first, await configOf({})];
    expect(changesBetween(one, two)).toEqual([]);
    expect(JSON.stringify(one)).not.toContain("sk-secret");
  });
});
