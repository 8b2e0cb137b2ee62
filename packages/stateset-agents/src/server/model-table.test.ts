import { expect, it } from "vitest";
import type { Caller } from "./key/caller.ts";
import { ModelTable } from "./model-table.ts";
import type { ServedModel } from "./served-model.ts";

const table = new ModelTable(["small", "large"].map((name) => ({ name }) as ServedModel));
const caller = (models?: string[]): Caller => ({
  ...{ keyId: "a", project: "p", scopes: new Set<"infer">(["infer"]), limits: {} },
  models,
});

it("finds models by name, those of a key alone", () => {
  expect(table.find("small", caller()).name).toBe("small");
  expect(table.of(caller(["large"])).map(({ name }) => name)).toEqual(["large"]);
  expect(table.of(caller()).map(({ name }) => name)).toEqual(["small", "large"]);
  // A model that the key may not use does not exist for it, not even in a hint.
  const error = { status: 404, message: expect.not.stringContaining("large") };
  expect(() => table.find("larg", caller(["small"]))).toThrowError(expect.objectContaining(error));
  expect(() => table.find("large", caller(["small"]))).toThrowError(expect.objectContaining({ status: 404 }));
});

it.each(["smal", "../small", "", "__proto__", "x".repeat(100_000)])("has no %j", (name) => {
  try {
    table.find(name, caller());
    expect.unreachable();
  } catch (thrown) {
    const { status, message, details } = thrown as { status: number; message: string; details: object };
    expect([status, message.length < 300]).toEqual([404, true]);
    expect(details).toMatchObject({ code: "model_not_found", param: "model" });
  }
});

it("tells whoever runs the server what was meant", () => {
  expect(table.named("large").name).toBe("large");
  expect(() => table.named("larg")).toThrowError(
    expect.objectContaining({ code: "INVALID_OPTION", hint: expect.stringContaining('"large"') }),
  );
});
