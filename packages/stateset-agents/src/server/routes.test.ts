import { expect, it } from "vitest";
import type { Exchange } from "./exchange.ts";
import type { Metrics } from "./observe/metrics.ts";
import { routesOf } from "./routes.ts";

it("makes its description once, however often it is asked for", () => {
  const health = { models: () => [], draining: () => false };
  const routes = routesOf({ maxBodyBytes: 1024, health, metrics: {} as Metrics, weights: undefined });
  const { answer } = routes.find(({ path }) => path === "/openapi.json")!;
  const first = answer({} as Exchange);
  expect(first).toMatchObject({ openapi: "3.1.0" });
  expect(answer({} as Exchange)).toBe(first);
});
