/** What one project asked is nothing to another: neither how soon its first token comes, nor the tokens of its conversations. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Json } from "../cli.ts";
import { type Attacked, modelName, openAttacked } from "./attacked-server.ts";

let attacked: Attacked;
/** Two keys of one project, and one of another. */
let [one, two, other]: string[] = [];
beforeAll(async () => {
  attacked = await openAttacked({ responseCache: { entries: 10, bytes: 1 << 20 } });
  [one, two, other] = await Promise.all(["a", "a", "b"].map((project) => attacked.newKey({ project })));
});
afterAll(() => attacked.close());

const chat = { method: "POST", path: "/v1/chat/completions" } as const;

async function ask(key: string | undefined, messages: object[], over: object = {}) {
  const body = { model: modelName, messages, max_tokens: 4, ...over };
  const response = await attacked.ask(chat, { key, body });
  expect(response.status).toBe(200);
  const { choices, usage } = (await response.json()) as Json;
  return {
    reply: choices[0].message as object,
    cached: usage.prompt_tokens_details.cached_tokens as number,
    kept: response.headers.get("x-stateset-cached"),
  };
}

async function continued(): Promise<number> {
  const response = await attacked.ask({ method: "GET", path: "/metrics" }, { key: one });
  return Number(/^stateset_chains_total\{outcome="continued"\} (\d+)$/m.exec(await response.text())?.[1] ?? 0);
}

const said = (words: string) => [{ role: "user", content: `${words} `.repeat(60) }];

it("prefixes that were computed are the project's own", async () => {
  const messages = said("where is my parcel");
  expect((await ask(one, messages)).cached).toBe(0);
  expect((await ask(other, messages)).cached).toBe(0);
  expect((await ask(two, messages)).cached).toBeGreaterThan(0);
});

it("conversations go on in their own project alone", async () => {
  const messages = said("a red shoe");
  const { reply } = await ask(one, messages);
  const next = [...messages, reply, { role: "user", content: "And?" }];
  const before = await continued();
  await ask(other, next);
  expect(await continued()).toBe(before);
  await ask(two, next);
  expect(await continued()).toBe(before + 1);
});

it("replies that are kept are for the same key alone", async () => {
  const kept: (string | null)[] = [];
  for (const key of [one, one, two, other]) kept.push((await ask(key, said("ok"), { seed: 1 })).kept);
  expect(kept).toEqual([null, "1", null, null]);
});
