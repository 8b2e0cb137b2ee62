/** Requests made wrong by the thousand (with `npm run soak`, a hundred thousand): none is a failure of the server, and none leaves anything behind. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { createRandom } from "../../src/random.ts";
import { nameOf, type Route } from "../../src/server/route.ts";
import { eventsOf } from "../../src/test-support/read-events.ts";
import { bodiesOf, endless, openAttacked, requestOf, routes } from "./attacked-server.ts";
import { mutated } from "./mutate.ts";

const wanted = process.env.STATESET_SOAK ? 100_000 : 2000;
const atATime = 24;
/** Those that sample are where most can go wrong; loading weights takes long. Whoever listens for ever is no use here. */
const often = routes
  .filter((route) => !endless.includes(nameOf(route)))
  .flatMap((route) =>
    Array<Route>(route.operation ? 40 : route.scope === "admin" || route.path.startsWith("/ui") ? 1 : 4).fill(route),
  );
/** After so many everything that is kept within bounds has reached them. */
const settled = 20_000;
const slackBytes = 64 << 20;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Reads the whole answer; says what is wrong with it. */
async function faultOf(response: Response): Promise<string | undefined> {
  const text = await response.text();
  const { status, headers } = response;
  if (headers.get("x-request-id") === null) return "no id";
  if (status === 500 || status === 502) return text;
  const type = headers.get("content-type") ?? "";
  // Of what is not JSON: metrics, the page, numbers; and what a person is told who comes by a wrong link.
  if (
    status === 303 ||
    (/^(?:text\/(?:plain|html|javascript|csv)|application\/octet-stream)/.test(type) && status < 404)
  )
    return undefined;
  try {
    const told = type.startsWith("text/event-stream")
      ? eventsOf(text)
          .filter((data) => data !== "[DONE]")
          .map((data) => JSON.parse(data) as { error?: object })
      : [JSON.parse(text) as { error?: object }];
    const errors = told.filter(({ error }) => error !== undefined).map(({ error }) => error!);
    const shaped = errors.every((error) => Object.keys(error).sort().join() === "code,message,param,type");
    const failed = errors.some((error) => "code" in error && error.code === "internal_error");
    return shaped && !failed && (status === 200 || errors.length === 1) ? undefined : text;
  } catch {
    return `not JSON: ${text}`;
  }
}

it(`takes ${wanted} mutated requests without failing, and keeps nothing of them`, { timeout: 7_200_000 }, async () => {
  // A mutation may ask for more than there is time for.
  const { server, policy, newKey, keys } = await openAttacked({ deadlineMs: 50 });
  const key = await newKey();
  const random = createRandom(16);
  const statuses: Record<number, number> = {};
  const faults: string[] = [];
  let next = 0;
  let before = 0;
  const one = async (i: number) => {
    const route = often[random.below(often.length)]!;
    const bodies = bodiesOf(route);
    const asked = mutated(bodies[random.below(bodies.length)], key, random);
    const leaving = random.below(10) === 0 ? new AbortController() : undefined;
    const request = requestOf(route, { ...asked, ...(leaving && { signal: leaving.signal }) });
    if (leaving) setTimeout(() => leaving.abort(), random.below(20));
    const response = await server.fetch(request);
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
    const fault = await faultOf(response);
    if (fault !== undefined)
      faults.push(
        `${i} ${nameOf(route)} ${response.status} ${fault.slice(0, 300)} of ${String(asked.body).slice(0, 1500)}`,
      );
  };
  const worker = async () => {
    while (next < wanted && faults.length < 5) {
      const i = next++;
      if (i === settled) {
        collect();
        before = process.memoryUsage().rss;
      }
      await one(i);
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  expect(faults).toEqual([]);
  // They were not all refused for the same reason, nor all let through.
  for (const status of [200, 400, 401, 404, 408, 415])
    expect(statuses[status], JSON.stringify(statuses)).toBeGreaterThan(0);

  await expect.poll(() => policy.stats(), { timeout: 10_000 }).toMatchObject({ running: 0, waiting: 0, failed: false });
  const metrics = await (await server.fetch(requestOf({ method: "GET", path: "/metrics" }, { key }))).text();
  expect(metrics).toMatch(/^stateset_running\{model="starter"\} 0$/m);
  expect(metrics).toMatch(/^stateset_waiting\{model="starter"\} 0$/m);
  collect();
  if (before > 0) expect(process.memoryUsage().rss - before).toBeLessThan(slackBytes);
  // Would wait for any request that was not noted as over.
  await server.drain(longest);
  keys.close();
  await policy.close();
});

const longest = 7_200_000;
