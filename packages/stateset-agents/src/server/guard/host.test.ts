import { describe, expect, it } from "vitest";
import type { HttpError } from "../http-error.ts";
import { createHostGuard, type HostRules } from "./host.ts";

function answer(rules: HostRules, headers: Record<string, string>): number {
  try {
    createHostGuard(rules)(new Headers(headers));
    return 200;
  } catch (error) {
    return (error as HttpError).status;
  }
}

describe("a server that this machine alone reaches", () => {
  const rules = { loopback: true, hosts: ["box.local:8000", "gpu"], origins: ["https://app.example/"] };

  it.each([
    "localhost",
    "localhost:8000",
    "LOCALHOST:8000",
    "127.0.0.1:8000",
    "127.8.9.1",
    "[::1]:8000",
    "box.local:8000",
    "gpu:1",
  ])("is meant by Host %s", (host) => {
    expect(answer(rules, { host })).toBe(200);
  });

  it.each([
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.1",
    "0.0.0.0",
    "[::]",
    "127.1",
    "box.local",
  ])("is not meant by Host %s", (host) => {
    expect(answer(rules, { host })).toBe(403);
  });

  it.each(["", "a b", "localhost:", "localhost:123456", "user@localhost", "localhost/x", "[::1"])(
    "takes Host %j for malformed",
    (host) => {
      expect(answer(rules, { host })).toBe(400);
    },
  );

  it.each([
    ["http://localhost:8000", 200],
    ["https://app.example", 200],
    ["http://localhost:3000", 403],
    ["https://evil.example", 403],
    ["https://app.example.evil", 403],
    ["null", 403],
    ["file://", 403],
  ])("answers a page of %s with %i", (origin, status) => {
    expect(answer(rules, { host: "localhost:8000", origin })).toBe(status);
  });
});

describe("a server that others reach", () => {
  it("takes any name unless some are given, then only these", () => {
    expect(answer({ loopback: false }, { host: "api.example" })).toBe(200);
    expect(answer({ loopback: false, hosts: ["api.example"] }, { host: "api.example:443" })).toBe(200);
    expect(answer({ loopback: false, hosts: ["api.example"] }, { host: "evil.example" })).toBe(403);
  });

  it("refuses pages of other origins", () => {
    expect(answer({ loopback: false }, { host: "api.example", origin: "https://api.example" })).toBe(200);
    expect(answer({ loopback: false }, { host: "api.example", origin: "https://evil.example" })).toBe(403);
  });
});
