/** `best-of-n --dry-run`: one scenario is played, so that environment and reward are tried as well; nothing is kept. */
import { counted } from "../../counted.ts";
import { defaultTokenBudget, type PassSettings } from "../../learning/optimiser.ts";
import type { Scene } from "../../project/build-project.ts";
import { type HarvestSettings, harvestBestOfN } from "../../supervised/best-of-n.ts";
import { duration, number } from "../../telemetry/format.ts";
import { printJson } from "../io.ts";
import { modelText } from "../model-label.ts";
import { memoryText, printPlanTable, refuseUnfit } from "../run/plan-table.ts";
import { bestOfN } from "./learner.ts";
import { resolveSettings } from "./resolve-settings.ts";
import type { LearnJob } from "./run-learn.ts";

/** `job.settings` are those of learning, `settings` those of sampling. */
export async function printHarvestPlan(job: LearnJob, settings: HarvestSettings): Promise<void> {
  const { project, flags, io } = job;
  const { environment, reward } = project as Scene;
  const { agent } = project;
  const { model } = agent.policy;
  const { recompute, tokenBudget = defaultTokenBudget(agent.policy, recompute) } = resolveSettings(
    bestOfN,
    job.settings,
    undefined,
  ) as unknown as Pick<PassSettings, "recompute"> & Partial<PassSettings>;
  const memory = agent.policy.plan({ tokenBudget, recompute, reference: false });
  const [first] = environment.scenarios;
  const startedAt = performance.now();
  const { sampledReward } = await harvestBestOfN({ ...settings, agent, environment, reward, scenarios: [first!] });
  const n = settings.n ?? 8;
  const scenarios = environment.scenarios.length;
  const totalMs = (performance.now() - startedAt) * scenarios;
  if (flags.json) {
    const facts = { scenarios, n, conversations: n * scenarios, reward: reward?.name ?? null };
    printJson(io, { type: "plan", command: "best-of-n", model, ...facts, memory, time: { totalMs } });
    refuseUnfit(memory);
    return;
  }
  const rows = {
    model: modelText(model),
    sampling: `${counted(scenarios, "scenario")} × ${n} = ${(n * scenarios).toLocaleString("en-US")} conversations, ${settings.keep ?? 1} of each scenario kept at most`,
    reward: `${reward?.name ?? "the environment's own"}, ${number(sampledReward)} on the first scenario`,
    memory: memoryText(memory, io),
    time: `about ${duration(totalMs)} of sampling at most, then learning from what is kept`,
  };
  printPlanTable(rows, io, "nothing is kept and nothing trained");
  refuseUnfit(memory);
}
