// Many clients in one process, apart from the server: `clients.mjs <request as JSON>` prints what they saw as JSON on its last line.
// {url, model, streams, rounds, maxTokens, extra, events}: each stream asks `rounds` times, one after another. With `events` the moments of
// the events are told too, on the clock that all processes of a machine share.
import { Agent, request as ask } from "node:http";
import { conversation } from "./workload.mjs";

const { url, model, streams, rounds, maxTokens, extra = {}, events = false } = JSON.parse(process.argv[2]);
const agent = new Agent({ keepAlive: true, maxSockets: streams });
const now = () => performance.timeOrigin + performance.now();

/** Counts tokens as the server's usage says, or where it says nothing the events with text. */
function reply(stream, round) {
  const body = JSON.stringify({
    ...{ model, messages: conversation(stream, round), seed: round * streams + stream, temperature: 1 },
    ...{ max_tokens: maxTokens, stream: true, stream_options: { include_usage: true }, ...extra },
  });
  return new Promise((settle, reject) => {
    const began = performance.now();
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const request = ask(`${url}/v1/chat/completions`, { method: "POST", agent, headers }, (response) => {
      response.setEncoding("utf8");
      let rest = "";
      let pieces = 0;
      let usage;
      let firstMs;
      const at = [];
      response.on("data", (chunk) => {
        if (events) at.push(now());
        const lines = (rest + chunk).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith("data: {")) continue;
          const event = JSON.parse(line.slice(6));
          if (event.error) return reject(new Error(event.error.message ?? JSON.stringify(event.error)));
          if (event.choices?.[0]?.delta?.content) {
            pieces++;
            firstMs ??= performance.now() - began;
          }
          usage = event.usage?.completion_tokens ?? usage;
        }
      });
      response.on("end", () => {
        if (response.statusCode !== 200) return reject(new Error(`${response.statusCode}: ${rest}`));
        settle({ tokens: usage ?? pieces, firstMs, ...(events && { at }) });
      });
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

const began = performance.now();
const replies = (
  await Promise.all(
    Array.from({ length: streams }, async (_, stream) => {
      const own = [];
      for (let round = 0; round < rounds; round++) own.push(await reply(stream, round));
      return own;
    }),
  )
).flat();
const ms = performance.now() - began;
const tokens = replies.reduce((sum, one) => sum + one.tokens, 0);
console.log(
  JSON.stringify({
    tokens,
    ms,
    firstMs: replies.map((one) => one.firstMs),
    ...(events && { at: replies.map((one) => one.at) }),
  }),
);
agent.destroy();
