import { describe, expect, it } from "vitest";
import { served } from "../../test-support/served.ts";
import { type Observer, observeAll, type Served } from "./observer.ts";

describe("observeAll", () => {
  it("tells everybody, also after one that throws or rejects, and says each failure once", async () => {
    const seen: Served[] = [];
    const said: string[] = [];
    const throwing: Observer = {
      served() {
        throw new Error("no disk");
      },
    };
    const rejecting: Observer = {
      async served() {
        throw new Error("no net");
      },
    };
    const all = observeAll([throwing, rejecting, { served: (one) => void seen.push(one) }], (message) =>
      said.push(message),
    );
    all.served(served({ requestId: "a" }));
    all.served(served({ requestId: "b" }));
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen.map(({ requestId }) => requestId)).toEqual(["a", "b"]);
    expect(said).toEqual(["An observer of the server fails: no disk.", "An observer of the server fails: no net."]);
  });
});
