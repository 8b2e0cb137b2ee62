import { describe, expect, it } from "vitest";
import { z } from "zod";
import { readFields } from "./read-fields.ts";

const schema = z.strictObject({
  model: z.string(),
  temperature: z.number().max(2).optional(),
  tools: z.array(z.strictObject({ name: z.string() })).optional(),
});
const read = (body: unknown, ignored = new Set<string>()) => readFields(schema, body, { known: ["user"], ignored });

describe("readFields", () => {
  it("takes null for a field that is not set, and notes what is known and has no effect", () => {
    const ignored = new Set<string>();
    expect(read({ model: "a", temperature: null, user: "me" }, ignored)).toEqual({ model: "a" });
    expect([...ignored]).toEqual(["user"]);
    expect(read({ model: "a", user: null }, new Set())).toEqual({ model: "a" });
  });

  it.each([
    [{ model: "a", temprature: 1 }, "unknown_field", "temprature", 'Did you mean "temperature"?'],
    [{ model: "a", tools: [{ nam: "x" }] }, "unknown_field", "tools.0.nam", 'Did you mean "name"?'],
    [{ model: "a", temperature: 3 }, "invalid_value", "temperature", 'Invalid value for "temperature"'],
    [{ model: 1 }, "invalid_value", "model", "string"],
    [{}, "invalid_value", "model", "string"],
    [[], "invalid_body", undefined, "JSON object"],
    ["text", "invalid_body", undefined, "JSON object"],
    [null, "invalid_body", undefined, "JSON object"],
  ])("says what is wrong with %j", (body, code, param, message) => {
    const error = { status: 400, details: { code }, message: expect.stringContaining(message) };
    expect(() => read(body)).toThrowError(
      expect.objectContaining({ ...error, details: expect.objectContaining({ code }) }),
    );
    try {
      read(body);
    } catch (thrown) {
      expect((thrown as { details: { param?: string } }).details.param).toBe(param);
    }
  });
});

it("refuses what cannot even be compared", () => {
  const schema = z.strictObject({ input: z.union([z.string(), z.array(z.array(z.int()).min(1))]) });
  const body = JSON.parse('{"input": [{"length": {"toString": 1, "valueOf": 2}}]}') as unknown;
  expect(() => readFields(schema, body, { ignored: new Set() })).toThrow(expect.objectContaining({ status: 400 }));
});
