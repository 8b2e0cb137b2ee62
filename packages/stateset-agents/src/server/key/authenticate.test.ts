import { describe, expect, it } from "vitest";
import { refusal } from "../../test-support/refusal.ts";
import { authenticate, requireScope } from "./authenticate.ts";
import type { Found, Keys } from "./caller.ts";
import { staticKeys } from "./key-store.ts";

const secret = "canary-5fd1c0";
const keys = staticKeys([secret]);

describe("authenticate", () => {
  it("knows the key behind Bearer, in whatever case", () => {
    for (const word of ["Bearer", "bearer"]) expect(authenticate(keys, `${word} ${secret}`).keyId).toBe("given-1");
  });

  it.each([
    undefined,
    null,
    "",
    secret,
    `Basic ${secret}`,
    `Bearer  ${secret}`,
    `Bearer ${secret}x`,
    `Bearer ${"k".repeat(600)}`,
  ])("answers %j with 401, in OpenAI's shape and without what was sent", (header) => {
    const error = refusal(() => authenticate(keys, header));
    expect(error).toMatchObject({ status: 401, details: { headers: { "www-authenticate": "Bearer" } } });
    const body = error.toBody();
    expect(body.error).toMatchObject({ type: "authentication_error", param: null, code: "invalid_api_key" });
    expect(JSON.stringify(body) + error.stack).not.toContain(secret);
  });

  it.each(["unknown", "revoked", "expired"] as const)("answers a key that is %s with 401", (kind) => {
    const store: Keys = { find: (): Found => ({ kind }), close() {} };
    expect(refusal(() => authenticate(store, `Bearer ${secret}`)).status).toBe(401);
  });
});

it("a key without the scope is answered with 403", () => {
  const caller = authenticate(keys, `Bearer ${secret}`);
  expect(() => requireScope(caller, "infer")).not.toThrow();
  expect(refusal(() => requireScope(caller, "admin")).toBody().error.type).toBe("permission_error");
});
