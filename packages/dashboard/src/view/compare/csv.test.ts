import { describe, expect, it } from "vitest";
import { settingsCsv } from "./csv.ts";

const run = (key: string) => ({ key, id: key, seed: null, algorithm: null });

describe("settings as CSV", () => {
  it("has a column a run, and nothing where a setting is not set", () => {
    const settings = [
      { path: "seed", values: [1, -2] },
      { path: "kl", values: [{ coefficient: 0.1 }, null] },
    ];
    expect(settingsCsv({ runs: [run("a"), run("b,c")], settings })).toBe(
      'setting,a,"b,c"\r\nseed,1,-2\r\nkl,"{""coefficient"":0.1}",\r\n',
    );
  });

  it("makes text of what a spreadsheet would run", () => {
    const settings = [{ path: "note", values: ["=1+1", "@sum", "-1e3"] }];
    expect(settingsCsv({ runs: ["a", "b", "c"].map(run), settings })).toContain("note,'=1+1,'@sum,-1e3\r\n");
  });
});
