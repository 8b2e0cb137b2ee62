import type { ConversationScenarioInput } from "../../environment/parse-scenario.ts";
import { conversationConfigs, heldOutConfigs } from "../../environment/preset/index.ts";
import type { PresetName } from "../../project/names.ts";
import type { PackageSource } from "./package-source.ts";

export const templateNames = ["support", "tech-support", "sales", "tools", "custom"] as const;
export type TemplateName = (typeof templateNames)[number];

export const templateHints: Record<TemplateName, string> = {
  support: "orders, refunds, billing: polite and brief",
  "tech-support": "crashes, passwords: concrete steps",
  sales: "prices and plans: keeps the customer talking",
  tools: "call the right function with the right arguments",
  custom: "your own reward, written as a function",
};

export interface TemplateOptions {
  name: string;
  /** Undefined: the bundled starter model. */
  model: string | undefined;
  source: PackageSource;
}

/** The files of a new project by path. Everything in it is meant to be read and changed. */
export function projectFiles(template: TemplateName, options: TemplateOptions): Record<string, string> {
  return {
    "package.json": `${JSON.stringify(packageJson(options), null, 2)}\n`,
    "tsconfig.json": `${JSON.stringify(tsconfig, null, 2)}\n`,
    ".gitignore": "node_modules\nruns\n",
    "README.md": readme(template, options),
    ...parts[template](options),
  };
}

function packageJson({ name, source: { dependencies, optionalDependencies } }: TemplateOptions) {
  return {
    name,
    private: true,
    type: "module",
    scripts: {
      plan: "stateset-agents train --dry-run",
      train: "stateset-agents train",
      evaluate: "stateset-agents evaluate --checkpoint last --scenarios",
      chat: "stateset-agents chat --checkpoint last",
    },
    dependencies,
    ...(optionalDependencies && { optionalDependencies }),
  };
}

const tsconfig = {
  compilerOptions: {
    target: "ES2023",
    module: "ESNext",
    moduleResolution: "Bundler",
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  },
  include: ["*.ts"],
};

const agentLine = (prompt: string, { model }: TemplateOptions) =>
  `agent: {${model === undefined ? "" : ` model: ${JSON.stringify(model)}, lora: true,`} systemPrompt: ${JSON.stringify(prompt)}, sampling: { maxTokens: 64 } },`;

/** Of a model of the user's own, larger than the bundled one, a step is smaller, so that it takes about as long. */
const training = ({ model }: Pick<TemplateOptions, "model">) => `training: {
    steps: 30,
    groupsPerStep: ${model === undefined ? 6 : 2},
    groupSize: 8,
    evaluation: { every: 10 },
  },`;

const scenarioFiles = (preset: PresetName): Record<string, string> => ({
  "scenarios/train.jsonl": jsonl(conversationConfigs[preset].scenarios),
  "scenarios/held-out.jsonl": jsonl(heldOutConfigs[preset].scenarios),
});

function domain(preset: PresetName, prompt: string, rewards: readonly [string, number][]) {
  return (options: TemplateOptions): Record<string, string> => ({
    "stateset.config.ts": `import { defineConfig } from "stateset-agents";

export default defineConfig({
  ${agentLine(prompt, options)}
  environment: { scenarios: "scenarios/train.jsonl", maxTurns: 4 },
  // Phrasings that training never sees: they say whether the agent learnt more than the script.
  heldOut: "scenarios/held-out.jsonl",
  reward: { ${rewards.map(([name, weight]) => `${name}: ${weight}`).join(", ")} },
  ${training(options)}
});
`,
    ...scenarioFiles(preset),
  });
}

const parts: Record<TemplateName, (options: TemplateOptions) => Record<string, string>> = {
  support: domain("customerService", "You are a polite customer support agent.", [
    ["politeness", 0.5],
    ["conciseness", 0.3],
    ["helpfulness", 0.2],
  ]),
  "tech-support": domain("technicalSupport", "You are a patient technical support agent.", [
    ["helpfulness", 0.6],
    ["politeness", 0.2],
    ["conciseness", 0.2],
  ]),
  sales: domain("sales", "You are a friendly sales assistant.", [
    ["engagement", 0.5],
    ["helpfulness", 0.3],
    ["politeness", 0.2],
  ]),
  tools,
  custom,
};

function tools({ model }: TemplateOptions): Record<string, string> {
  return {
    "stateset.config.ts": `import { defineConfig, TaskEnvironment, type Task, type Turn } from "stateset-agents";
import { tool } from "stateset-agents/tools";

/** What the agent can do. These two make their answers up; yours would ask a service. */
const findRestaurants = tool({
  name: "FindRestaurants",
  description: "Restaurants of a cuisine in a city",
  parameters: { type: "object", properties: { city: { type: "string" }, cuisine: { type: "string" } } },
  execute: ({ city, cuisine }) => ({ name: \`\${cuisine} Garden\`, city }),
});
const findMovies = tool({
  name: "FindMovies",
  description: "Movies of a genre at a place",
  parameters: { type: "object", properties: { genre: { type: "string" }, location: { type: "string" } } },
  execute: ({ genre, location }) => ({ title: \`A \${genre} Story\`, location }),
});

/** Each task is one question and the call that answers it. */
const ask = (id: string, prompt: string, tool: string, args: Record<string, string>): Task => ({
  id,
  prompt,
  goal: \`call \${tool}\`,
  metadata: { tool, args },
});

/** How much of the first call is right, from 0 to 1: the tool, then the share of its arguments, none made up. */
function rightness(turns: readonly Turn[], { metadata = {} }: Task): number {
  const call = turns.flatMap((turn) => turn.tool_calls ?? [])[0]?.function;
  if (call === undefined) return 0;
  if (call.name !== metadata.tool) return 0.1;
  try {
    const given = JSON.parse(call.arguments) as Record<string, unknown>;
    const wanted = Object.entries(metadata.args as Record<string, string>);
    const right = wanted.filter(([name, value]) => String(given[name]).toLowerCase() === value.toLowerCase()).length;
    return 0.3 + 0.7 * (right / Math.max(wanted.length, Object.keys(given).length));
  } catch {
    return 0.1; // no JSON
  }
}

const environment = (tasks: Task[]) =>
  new TaskEnvironment({ maxTurns: 1, tasks, check: (reply, { turns, scenario }) => rightness([...turns, reply], scenario) });

export default defineConfig({
  agent: {
    ${model === undefined ? "" : `model: ${JSON.stringify(model)},\n    lora: true,\n    `}systemPrompt: "You are a helpful booking assistant.",
    tools: [findRestaurants, findMovies],
    maxToolSteps: 1,
    sampling: { maxTokens: 48 },
  },
  environment: environment([
    ask("indian", "I want an Indian restaurant in San Jose.", "FindRestaurants", { city: "San Jose", cuisine: "Indian" }),
    ask("mexican", "Where can I eat Mexican food in Berkeley?", "FindRestaurants", { city: "Berkeley", cuisine: "Mexican" }),
    ask("thai", "We are four and would like Thai, in Oakland.", "FindRestaurants", { city: "Oakland", cuisine: "Thai" }),
    ask("comedy", "Find me a comedy movie in Oakland.", "FindMovies", { genre: "Comedy", location: "Oakland" }),
    ask("horror", "Any horror movies in San Francisco?", "FindMovies", { genre: "Horror", location: "San Francisco" }),
    ask("action", "What action films are on in Concord?", "FindMovies", { genre: "Action", location: "Concord" }),
  ]),
  // Questions that training never sees.
  heldOut: environment([
    ask("chinese", "Is there a Chinese restaurant in Fremont?", "FindRestaurants", { city: "Fremont", cuisine: "Chinese" }),
    ask("drama", "I feel like seeing a drama in Sacramento.", "FindMovies", { genre: "Drama", location: "Sacramento" }),
    ask("ramen", "I would like Japanese food in Palo Alto.", "FindRestaurants", { city: "Palo Alto", cuisine: "Japanese" }),
    ask("pizza", "Where is a good Italian place in Hayward?", "FindRestaurants", { city: "Hayward", cuisine: "Italian" }),
    ask("curry", "Find us an Indian restaurant in Milpitas.", "FindRestaurants", { city: "Milpitas", cuisine: "Indian" }),
    ask("tacos", "We want Mexican tonight, somewhere in Napa.", "FindRestaurants", { city: "Napa", cuisine: "Mexican" }),
    ask("pad-thai", "Can I get Thai food in Santa Rosa?", "FindRestaurants", { city: "Santa Rosa", cuisine: "Thai" }),
    ask("pho", "Is there any Vietnamese restaurant in San Bruno?", "FindRestaurants", { city: "San Bruno", cuisine: "Vietnamese" }),
    ask("burger", "I am hungry for American food in Vallejo.", "FindRestaurants", { city: "Vallejo", cuisine: "American" }),
    ask("gyros", "Show me Greek restaurants in Alameda.", "FindRestaurants", { city: "Alameda", cuisine: "Greek" }),
    ask("bistro", "My parents want to eat French in Sonoma.", "FindRestaurants", { city: "Sonoma", cuisine: "French" }),
    ask("bibimbap", "Korean food in Santa Clara, please.", "FindRestaurants", { city: "Santa Clara", cuisine: "Korean" }),
    ask("dim-sum", "Which Chinese places are there in Daly City?", "FindRestaurants", { city: "Daly City", cuisine: "Chinese" }),
    ask("paella", "Do you know a Spanish restaurant in Oakland?", "FindRestaurants", { city: "Oakland", cuisine: "Spanish" }),
    ask("sushi", "Table for two, Japanese, in Berkeley.", "FindRestaurants", { city: "Berkeley", cuisine: "Japanese" }),
    ask("pasta", "Something Italian in San Jose would be nice.", "FindRestaurants", { city: "San Jose", cuisine: "Italian" }),
    ask("thriller", "Is there a thriller playing in San Mateo?", "FindMovies", { genre: "Thriller", location: "San Mateo" }),
    ask("romance", "My wife wants to see a romance in Fremont.", "FindMovies", { genre: "Romance", location: "Fremont" }),
    ask("animation", "The kids want an animation film in Walnut Creek.", "FindMovies", { genre: "Animation", location: "Walnut Creek" }),
    ask("western", "Do they show a western anywhere in Petaluma?", "FindMovies", { genre: "Western", location: "Petaluma" }),
    ask("fantasy", "Find fantasy movies in Sunnyvale.", "FindMovies", { genre: "Fantasy", location: "Sunnyvale" }),
    ask("mystery", "I would love a mystery, in Livermore.", "FindMovies", { genre: "Mystery", location: "Livermore" }),
    ask("musical", "Are there musicals on in San Francisco?", "FindMovies", { genre: "Musical", location: "San Francisco" }),
    ask("documentary", "What documentary can I see in Davis?", "FindMovies", { genre: "Documentary", location: "Davis" }),
    ask("horror-night", "We feel like horror tonight, in San Jose.", "FindMovies", { genre: "Horror", location: "San Jose" }),
    ask("comedy-date", "Something to laugh about: comedy, in Berkeley.", "FindMovies", { genre: "Comedy", location: "Berkeley" }),
    ask("action-weekend", "Action movies in Pleasanton this weekend?", "FindMovies", { genre: "Action", location: "Pleasanton" }),
    ask("drama-club", "Our club looks for a drama in Hayward.", "FindMovies", { genre: "Drama", location: "Hayward" }),
    ask("sci-fi", "Which sci-fi films run in Mountain View?", "FindMovies", { genre: "Sci-fi", location: "Mountain View" }),
    ask("war", "Any war movie in Concord?", "FindMovies", { genre: "War", location: "Concord" }),
  ]),
  // No reward is named: what the environment's check says is the reward.
  ${training({ model })}
});
`,
  };
}

function custom(options: TemplateOptions): Record<string, string> {
  return {
    "stateset.config.ts": `import { defineConfig, rewardFunction } from "stateset-agents";

/** Your reward: any function from a conversation to a number. This one likes short replies that ask something back. */
const reward = rewardFunction({ name: "curious" }, ({ turns }) => {
  const replies = turns.filter((turn) => turn.role === "assistant");
  const asks = replies.filter((turn) => turn.content.includes("?")).length / replies.length;
  const words = replies.reduce((sum, turn) => sum + turn.content.split(/\\s+/).length, 0) / replies.length;
  const short = Math.max(0, 1 - Math.max(0, words - 15) / 30);
  return { score: 0.6 * asks + 0.4 * short, breakdown: { asks, short } };
});

export default defineConfig({
  ${agentLine("You are a helpful assistant.", options)}
  environment: { scenarios: "scenarios/train.jsonl", maxTurns: 3 },
  heldOut: "scenarios/held-out.jsonl",
  reward,
  ${training(options)}
});
`,
    ...scenarioFiles("customerService"),
  };
}

function jsonl(scenarios: readonly ConversationScenarioInput[]): string {
  return scenarios.map((scenario) => `${JSON.stringify(scenario)}\n`).join("");
}

function readme(template: TemplateName, { name, model, source: { note } }: TemplateOptions): string {
  const scenarios =
    template === "tools"
      ? "- `stateset.config.ts`: the agent, the tasks, the check that is the reward, and the settings"
      : "- `stateset.config.ts`: the agent, the reward and the settings\n- `scenarios/train.jsonl`: what users say while training; `scenarios/held-out.jsonl`: what they say when it is measured";
  return `# ${name}

An agent that learns from conversations: ${templateHints[template]}. It starts from ${model === undefined ? "the bundled starter model, which trains on a laptop's CPU" : `\`${model}\``}.

\`\`\`sh
npm install
npm run plan      # what a run will do, and what it needs
npm run train     # trains; Ctrl-C saves, and \`npx stateset-agents train --resume\` goes on
npm run evaluate  # measures the newest run on held-out conversations
npm run chat      # talk to it
\`\`\`

${note === undefined ? "" : `${note}\n\n`}${scenarios}

Change the reward or the scenarios first; \`npx stateset-agents runs diff <a> <b>\` shows what changed between two runs.
`;
}

/** A single YAML file, for those who keep configurations as data. */
export function yamlConfig({ model }: Pick<TemplateOptions, "model">, template: TemplateName): string {
  const preset =
    template === "tech-support" ? "technical_support" : template === "sales" ? "sales" : "customer_service";
  return `# npx stateset-agents train --config <this file>
agent:
${model === undefined ? "  # model: a folder or hub id; the bundled starter model when left out" : `  model: ${model}\n  lora: true`}
  system_prompt: You are a polite customer support agent.
  sampling:
    max_tokens: 64
environment:
  preset: ${preset}
reward:
  politeness: 0.5
  conciseness: 0.3
  helpfulness: 0.2
training:
  steps: 30
  groups_per_step: 6
  group_size: 8
  evaluation:
    every: 10
`;
}
