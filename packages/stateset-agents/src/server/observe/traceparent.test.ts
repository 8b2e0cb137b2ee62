import { describe, expect, it } from "vitest";
import { parseTraceparent } from "./traceparent.ts";

const trace = "0af7651916cd43dd8448eb211c80319c";
const span = "b7ad6b7169203331";

describe("parseTraceparent", () => {
  it("reads the caller's span", () => {
    const parent = { traceId: trace, spanId: span, traceFlags: 1, isRemote: true };
    expect(parseTraceparent(`00-${trace}-${span}-01`)).toEqual(parent);
    expect(parseTraceparent(`00-${trace}-${span}-00`)).toEqual({ ...parent, traceFlags: 0 });
    expect(parseTraceparent(`cc-${trace}-${span}-01`)).toEqual(parent);
    expect(parseTraceparent(`cc-${trace}-${span}-01-what-the-future-brings`)).toEqual(parent);
  });

  it.each([
    undefined,
    "",
    "00",
    `ff-${trace}-${span}-01`,
    `00-${trace}-${span}-01-more`,
    `00-${trace}-${span}-01-`,
    `00-${trace}-${span}-1`,
    `00-${trace}-${span}-011`,
    `cc-${trace}-${span}-01.more`,
    `00-${"0".repeat(32)}-${span}-01`,
    `00-${trace}-${"0".repeat(16)}-01`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${trace}x-${span}-01`,
    `00-${trace.slice(1)}-${span}-01`,
    ` 00-${trace}-${span}-01`,
    `00-${trace}-${span}-01\n`,
    `00-${trace}-${span}-01,00-${trace}-${span}-01`,
    `0-${trace}-${span}-01`,
    `0g-${trace}-${span}-01`,
  ])("takes %j for none", (header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });
});
