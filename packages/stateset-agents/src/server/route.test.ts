import { expect, it } from "vitest";
import { checkRoutes, type Route } from "./route.ts";

const whole: Route = {
  ...{ method: "GET", path: "/a", scope: "read", maxBytes: 0, limited: true, summary: "A." },
  answer: () => ({}),
};

it.each(["scope", "maxBytes", "limited"] as const)("a route without %s does not start", (name) => {
  expect(() => checkRoutes([whole])).not.toThrow();
  const { [name]: _, ...rest } = whole;
  // @ts-expect-error: nor does it compile
  const route: Route = rest;
  expect(() => checkRoutes([route])).toThrow(/GET \/a does not say its scope and limits/);
});

it.each([{ scope: "everybody" }, { maxBytes: Number.POSITIVE_INFINITY }, { maxBytes: -1 }, { limited: 0 }])(
  "nor does one with %o",
  (wrong) => {
    expect(() => checkRoutes([{ ...whole, ...wrong } as unknown as Route])).toThrow(/does not say/);
  },
);

it("nor one that is there twice", () => {
  expect(() => checkRoutes([whole, { ...whole, scope: "open" }])).toThrow(/twice/);
});
