// Our side, in a process of its own: `ours.mjs engine|capture|serve <request as JSON>`. Plain JavaScript on the built package, as users run it.
// engine: samples without a server, and prints what that took as JSON on its last line.
// capture: the same conversations through a server and through a harness, which records them; clients in the same process.
// serve: serves until its parent is gone; answers what the parent asks it by process.send().
import { defineHarness, evaluate, MultiTurnAgent } from "stateset-agents";
import { openPolicy } from "stateset-agents/policy";
import { createServer } from "stateset-agents/server";
import { conversation } from "./workload.mjs";

const [mode, text] = process.argv.slice(2);
const request = JSON.parse(text);
const { model, threads, slots } = request;
const open = () => openPolicy({ model, ...(threads && { threads }), ...(slots && { slots }) });

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** As the server asks for them: the same tokens, lengths and seeds. */
async function engine() {
  const { streams, rounds, maxTokens } = request;
  const policy = await open();
  const sampling = {
    ...{ temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stop: [], stopTokens: [] },
    maxTokens,
  };
  const round = (which) =>
    policy.sample(
      Array.from({ length: streams }, (_, i) => ({
        tokens: policy.tokenizer.extend(undefined, conversation(i, which), { addGenerationPrompt: true }).tokens,
        ...{ sampling, seed: which * streams + i },
      })),
    );
  await round(rounds);
  const began = { cpu: cpuMs(), at: performance.now() };
  let tokens = 0;
  for (let which = 0; which < rounds; which++) {
    for (const sample of await round(which)) tokens += sample.tokens.length;
  }
  const answer = { tokens, cpuMs: cpuMs() - began.cpu, ms: performance.now() - began.at };
  await policy.close();
  console.log(JSON.stringify(answer));
}

async function serve() {
  const server = await createServer({ models: { bench: open } });
  const { url } = await server.listen({ port: 0 });
  const answers = {
    cpu: () => cpuMs(),
    load: async ({ folder }) => {
      const began = performance.timeOrigin + performance.now();
      await server.load("bench", folder);
      return { began, ended: performance.timeOrigin + performance.now() };
    },
  };
  process.on("message", async (asked) => {
    process.send({ id: asked.id, answer: await answers[asked.what](asked) });
  });
  process.on("disconnect", async () => {
    await server.close();
    process.exit(0);
  });
  process.send({ id: 0, answer: url });
}

/** Reads a streamed reply to its end, as any client does. */
async function stream({ baseURL, apiKey, name, messages }) {
  const response = await fetch(`${baseURL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify({ model: name, messages, max_tokens: request.maxTokens, stream: true }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  for await (const _ of response.body);
}

async function capture() {
  const { streams, rounds, maxTokens, turns } = request;
  const policy = await open();
  const agent = new MultiTurnAgent({ policy, sampling: { maxTokens } });
  const scenarios = Array.from({ length: streams }, (_, i) => ({ id: String(i), messages: conversation(i, 0) }));
  const timed = async (work) => {
    const before = policy.stats().sampledTokens;
    const began = performance.now();
    await work();
    return (1000 * (policy.stats().sampledTokens - before)) / (performance.now() - began);
  };
  const served = async () => {
    const server = await createServer({ models: { bench: agent } });
    const { url } = await server.listen({ port: 0 });
    const rate = await timed(() =>
      Promise.all(
        scenarios.map(async ({ messages }) => {
          for (let round = 0; round < rounds; round++) await stream({ baseURL: `${url}/v1`, name: "bench", messages });
        }),
      ),
    );
    await server.close();
    return rate;
  };
  const harness = defineHarness({
    scenarios,
    run: async ({ baseURL, apiKey, model: name, scenario: { messages } }) => {
      await stream({ baseURL, apiKey, name, messages });
      return 0;
    },
  });
  const captured = () => timed(() => evaluate({ agent, harness, samples: rounds, concurrency: streams }));
  const sides = [];
  await captured();
  for (let turn = 0; turn < turns; turn++) sides.push({ plain: await served(), captured: await captured() });
  await policy.close();
  console.log(JSON.stringify(sides));
}

await { engine, capture, serve }[mode]();
