// Our side, in a process of its own: `ours.mjs engine|serve <request as JSON>`. Plain JavaScript on the built package, as users run it.
// engine: samples without a server, and prints what that took as JSON on its last line.
// serve: serves until its parent is gone; answers what the parent asks it by process.send().
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

await { engine, serve }[mode]();
