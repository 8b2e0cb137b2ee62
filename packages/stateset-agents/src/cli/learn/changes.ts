import type { Agent } from "../../agent/agent.ts";
import { describeList } from "../../describe.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { type Change, changesBetween, modelFacts, readConfig } from "../../run/config.ts";
import type { Data } from "./learner.ts";

/** What the agent, its model and the data are now, against what the run that goes on began with. */
export async function changesSince(
  resumeFrom: string,
  agent: Agent,
  { examples, heldOut }: Data<unknown>,
): Promise<Change[]> {
  const saved = readConfig(runDirOf(resumeFrom));
  await agent.initialize();
  // Pairs, completions and examples are kept under their own names; how many can be learnt from the learner itself compares.
  const name = ["pairs", "completions", "examples"].find((key) => saved.data?.[key] !== undefined);
  const data = {
    ...saved.data,
    ...(name !== undefined && { [name]: describeList(examples) }),
    heldOut: heldOut && describeList(heldOut),
  };
  const own = saved.agent === undefined ? {} : { agent: agent.describe() };
  return changesBetween(saved, { ...saved, ...own, model: modelFacts(agent.policy.model), data });
}
