/** One measurement in a process of its own, so that its peak of memory is its own: `node case.mjs KIND FILE`. Prints one line of JSON. */
import {
  ConversationEnvironment,
  loadScenarios,
  MultiTurnAgent,
  readChats,
  rewardFunction,
  train,
  trainSupervised,
} from "stateset-agents";

const [kind, path] = process.argv.slice(2);
const peak = () => process.resourceUsage().maxRSS / 1024;

async function chats() {
  const list = [];
  for await (const chat of readChats(path)) list.push(chat);
  return list;
}

/** Until the first step is over: the step itself is a few tokens of a stub. */
async function trainStart() {
  const environment = new ConversationEnvironment({ scenarios: await loadScenarios(path) });
  const agent = new MultiTurnAgent({ stub: { replies: ["Hello."] } });
  const reward = rewardFunction({ name: "length" }, ({ turns }) => turns.length);
  await train({ agent, environment, reward, dir: false, steps: 1, groupsPerStep: 1, groupSize: 2 });
  return environment.scenarios.length;
}

/** Until the first step of the starter model begins: everything is tokenised by then. */
async function supervisedStart() {
  const examples = await chats();
  const agent = new MultiTurnAgent({ threads: 1 });
  const stop = new AbortController();
  const callbacks = { onStart: () => stop.abort() };
  await trainSupervised({ agent, examples, dir: false, signal: stop.signal, callbacks });
  await agent.close();
  return examples.length;
}

const kinds = {
  "load scenarios": async () => (await loadScenarios(path)).length,
  "stream chats": async () => {
    let count = 0;
    for await (const _ of readChats(path)) count++;
    return count;
  },
  "train() until its first step": trainStart,
  "trainSupervised() until its first step": supervisedStart,
};

const before = { rss: peak(), cpu: process.cpuUsage(), at: performance.now() };
const count = await kinds[kind]();
const { user, system } = process.cpuUsage(before.cpu);
const numbers = { seconds: (performance.now() - before.at) / 1000, cpuSeconds: (user + system) / 1e6 };
console.log(JSON.stringify({ count, ...numbers, emptyMiB: before.rss, peakMiB: peak() }));
