/**
 * A domain of your own: a library whose agent renews loans. A world of plain JSON, tools that are functions of it, and tasks that say how it should end.
 *   npx tsx examples/custom-domain-agent.ts [steps]
 */
import { MultiTurnAgent, TaskEnvironment, train } from "stateset-agents";
import type { StatefulTaskInput, TaskTool } from "stateset-agents/tools";
import { personaUser } from "stateset-agents/tools";
import { stepsOr } from "./shared/steps.ts";

interface Library {
  loans: Record<string, { title: string; reserved: boolean; renewed: boolean }>;
}

const parameters = { type: "object", properties: { loan_id: { type: "string" } }, required: ["loan_id"] };
const tools: TaskTool<Library>[] = [
  {
    name: "get_loan",
    description: "Look a loan up",
    parameters,
    run: ({ loans }, { loan_id }) => ({ result: loans[loan_id] ?? { error: "There is no such loan." } }),
  },
  {
    name: "renew_loan",
    description: "Renew a loan",
    parameters,
    // Tools obey: whether it is allowed is for the agent to see.
    run: ({ loans }, { loan_id }) => {
      const loan = loans[loan_id];
      if (!loan) return { result: { error: "There is no such loan." } };
      return { state: { loans: { ...loans, [loan_id]: { ...loan, renewed: true } } }, result: { renewed: true } };
    },
  },
];

const titles = ["Emma", "Moby-Dick", "Dracula", "Middlemarch", "Walden", "Ulysses", "Persuasion", "Kim"];
const tasks = titles.map((title, i): StatefulTaskInput<Library> => {
  const id = String(3100 + 7 * i);
  const reserved = i % 2 === 1;
  const looked = { tool: "get_loan", arguments: { loan_id: id } };
  return {
    id: `renew-${id}`,
    goal: i < 4 ? `Please renew loan ${id}.` : "Please renew my loan.",
    // Half of them say the number only when they are asked.
    metadata: { facts: [{ asked: ["loan", "number"], says: `It is loan ${id}.` }] },
    state: { loans: { [id]: { title, reserved, renewed: false } } },
    expect: reserved
      ? { calls: [looked], writes: [], said: [["reserved", "cannot", "sorry"]] }
      : { calls: [looked], writes: [{ tool: "renew_loan", arguments: { loan_id: id } }] },
  };
});

const environment = new TaskEnvironment<Library>({
  tasks,
  tools,
  policy: "Look at the loan first. Loans that somebody reserved cannot be renewed: say so.",
  user: personaUser(({ goal, metadata }) => ({ goal, facts: metadata?.facts as { asked: string[]; says: string }[] })),
  maxTurns: 6,
});

const agent = new MultiTurnAgent({ systemPrompt: "You are a librarian.", sampling: { maxTokens: 48 } });
// No reward is named: it is the environment's own, the share of what was expected that came true.
const { run } = await train({
  ...{ agent, environment, steps: stepsOr(60) },
  dir: false, // keep no files
  callbacks: { onStepEnd: ({ step, metrics }) => console.log(`step ${step}: reward ${metrics.reward?.toFixed(3)}`) },
});
console.log(`reward ${run.metrics[0]?.reward?.toFixed(2)} → ${run.metrics.at(-1)?.reward?.toFixed(2)}`);
await agent.close();
