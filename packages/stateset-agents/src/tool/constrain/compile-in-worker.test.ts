import { afterAll, describe, expect, it } from "vitest";
import { callFormats } from "../format/choose-format.ts";
import { type ConstraintOptions, compileConstraint } from "./compile-constraint.ts";
import { createConstraintCompiler } from "./compile-in-worker.ts";
import { readLimits } from "./limits.ts";

const answerOf = (schema: Record<string, unknown>): ConstraintOptions => ({
  ...{ tools: [], limits: readLimits(true), reasoning: false, answer: { schema } },
});
const small = (name: string) => answerOf({ type: "object", properties: { [name]: { type: "boolean" } } });
/** Strings in lists in lists: seconds of work. */
const slow = answerOf({ type: "array", items: { type: "array", items: { type: "string", minLength: 30 } } });

const compiler = createConstraintCompiler({ timeoutMs: 60_000 });
afterAll(() => compiler.close());

describe("a compiler of constraints", () => {
  it("makes what is made without it, in every form", async () => {
    const tool = {
      type: "function",
      function: { name: "f", parameters: { properties: { a: { type: "null" } } } },
    } as const;
    const limits = { ...readLimits(true), maxLength: Number.POSITIVE_INFINITY };
    const forms: ConstraintOptions[] = [
      small("é"),
      answerOf({ type: "string" }),
      { tools: [], limits, reasoning: true, answer: { schema: true } },
      { tools: [tool], format: callFormats.mistral, limits, reasoning: false },
      { tools: [tool], format: callFormats.json, limits, reasoning: false, choice: { name: "f" }, parallel: false },
    ];
    const made = await Promise.all(forms.map((form) => compiler.compile(form)));
    expect(made).toEqual(forms.map(compileConstraint));
  });

  it("gives the same automaton for the same options, and forgets the one not asked for longest", async () => {
    const own = createConstraintCompiler({ timeoutMs: 60_000, maxKept: 2 });
    const [a, b] = await Promise.all([own.compile(small("a")), own.compile(small("b"))]);
    expect(await own.compile(small("a"))).toBe(a);
    await own.compile(small("c"));
    expect(await own.compile(small("a"))).toBe(a);
    expect(await own.compile(small("b"))).not.toBe(b);
    await own.close();
  });

  it("says what is wrong as without it", async () => {
    const wrong = answerOf({ type: "array", items: { not: {} } });
    const own = await compiler.compile(wrong).catch((error) => error);
    expect(() => compileConstraint(wrong)).toThrow(own.message);
    expect(own).toMatchObject({ code: "INVALID_OPTION", hint: expect.stringMatching(/^Leave it out/) });
  });

  it("ends what takes too long, and makes those that wait behind it", async () => {
    const own = createConstraintCompiler({ timeoutMs: 60_000 });
    await own.compile(small("a"));
    const hasty = createConstraintCompiler({ timeoutMs: 1 });
    const [late, ...others] = await Promise.allSettled([
      hasty.compile(slow),
      hasty.compile(slow),
      own.compile(small("b")),
    ]);
    expect(late).toMatchObject({
      reason: { code: "INVALID_OPTION", message: expect.stringMatching(/longer than 1 ms/) },
    });
    expect(others.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    await Promise.all([own.close(), hasty.close()]);
  });

  it("refuses what waits when it is closed, and all that comes later", async () => {
    const own = createConstraintCompiler();
    const asked = [own.compile(slow), own.compile(small("a"))];
    const settled = Promise.allSettled(asked);
    await own.close();
    for (const one of await settled) expect(one).toMatchObject({ reason: { code: "ABORTED" } });
    await expect(own.compile(small("a"))).rejects.toThrow(/was closed/);
  });
});
