import { describe, expect, it } from "vitest";
import { errorCodes, StatesetError } from "./error.ts";

describe("StatesetError", () => {
  it("is recognised across copies of the library by its marker, not by its class", () => {
    const foreign = Object.assign(new Error("x"), { [Symbol.for("stateset-agents.error")]: true });
    expect(StatesetError.isInstance(foreign)).toBe(true);
    expect(StatesetError.isInstance(new Error("x"))).toBe(false);
  });
  it("puts the hint into the message and keeps the cause", () => {
    const cause = new Error("why");
    const error = new StatesetError("MODEL_NOT_FOUND", "No model at ./x.", { hint: "Check the path.", cause });
    expect(error.message).toBe("No model at ./x. Check the path.");
    expect(error.cause).toBe(cause);
  });
  it("documents every code", () => {
    for (const meaning of Object.values(errorCodes)) expect(meaning).toMatch(/\.$/);
  });
});
