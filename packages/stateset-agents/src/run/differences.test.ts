import { expect, it } from "vitest";
import { changesBetween, changesText, type RunConfig } from "./config.ts";
import { differences } from "./differences.ts";

it("takes a word that became an object as one change, not as a word that is gone", () => {
  expect(differences({ onFailure: "lowest" }, { onFailure: { score: 0 } })).toEqual([
    { path: "onFailure", a: "lowest", b: { score: 0 } },
  ]);
  const of = (onFailure: unknown) => ({ settings: { onFailure } }) as unknown as RunConfig;
  expect(changesText(changesBetween(of("lowest"), of({ score: 0 })))).toContain(
    ': settings.onFailure "lowest" → {"score":0}.',
  );
});

it("looks into objects and lists of objects, also where one side has none", () => {
  expect(differences({ parts: [{ weight: 1 }, { weight: 2 }] }, { parts: [{ weight: 1 }, { weight: 3 }] })).toEqual([
    { path: "parts.1.weight", a: 2, b: 3 },
  ]);
  expect(differences({}, { kl: { coefficient: 0.1, renewEvery: 0 } })).toEqual([
    { path: "kl.coefficient", a: undefined, b: 0.1 },
    { path: "kl.renewEvery", a: undefined, b: 0 },
  ]);
  expect(differences({ a: { b: 1, c: 2 } }, { a: { c: 2, b: 1 } })).toEqual([]);
});
