import { describe, expect, it } from "vitest";
import { EngineError } from "./error.ts";
import { load } from "./load.ts";
import { platformPackage, thisPlatform } from "./platform.ts";

describe("the package of a platform", () => {
  it.each([
    ["linux", "x64", "2.36", "@stateset-agents/engine-linux-x64-gnu"],
    ["linux", "arm64", undefined, "@stateset-agents/engine-linux-arm64-musl"],
    ["darwin", "arm64", undefined, "@stateset-agents/engine-darwin-arm64"],
    ["win32", "x64", undefined, "@stateset-agents/engine-win32-x64"],
  ])("on %s %s (glibc %s) is %s", (platform, arch, glibcVersion, name) => {
    expect(platformPackage({ platform, arch, glibcVersion })).toBe(name);
  });

  it("fits this machine", () => {
    expect(platformPackage()).toContain(`${process.platform}-${process.arch}`);
    expect(thisPlatform().arch).toBe(process.arch);
  });
});

describe("the loader", () => {
  const failure = (call: () => unknown) => {
    try {
      call();
    } catch (error) {
      return error as EngineError;
    }
    throw new Error("it loaded");
  };

  it("says what to install when there is neither a build nor a package", () => {
    const error = failure(() => load(undefined, "/no/build.node", "@stateset-agents/engine-none"));
    expect(error).toBeInstanceOf(EngineError);
    expect(error.code).toBe("ENGINE_UNAVAILABLE");
    expect(error.message).toContain('"npm install @stateset-agents/engine-none"');
    expect(error.message).toContain("npm run build");
  });

  it("says which file is broken", () => {
    const error = failure(() => load("/no/such.node", "/no/build.node", "x"));
    expect(error.code).toBe("ENGINE_UNAVAILABLE");
    expect(error.message).toContain("/no/such.node (from STATESET_ENGINE)");
  });
});
