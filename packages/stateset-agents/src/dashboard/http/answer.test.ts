import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, it } from "vitest";
import type { Exchange } from "../../server/exchange.ts";
import { answerJson, encodingFor } from "./answer.ts";

const asked = (encodings?: string) => ({ header: () => encodings }) as unknown as Exchange;
const large = { text: "a run that learnt ".repeat(200) };

it("chooses the smaller of what is taken", () => {
  expect(encodingFor("gzip, deflate, br, zstd")).toBe("br");
  expect(encodingFor("GZIP;q=0.5, br;q=0")).toBe("gzip");
  expect(encodingFor("gzip;q=0.0")).toBeUndefined();
  expect(encodingFor("brotli, *")).toBeUndefined();
  expect(encodingFor(undefined)).toBeUndefined();
});

it("packs what is large for who takes it so, and says that it depends on that", async () => {
  const unpack = { br: brotliDecompressSync, gzip: gunzipSync };
  for (const encoding of ["br", "gzip"] as const) {
    const response = await answerJson(asked(encoding), large);
    expect(response.headers.get("content-encoding")).toBe(encoding);
    expect(response.headers.get("vary")).toBe("accept-encoding");
    const bytes = Buffer.from(await response.arrayBuffer());
    expect(bytes.length).toBeLessThan(500);
    expect(JSON.parse(unpack[encoding](bytes).toString("utf8"))).toEqual(large);
  }
  for (const [value, encodings] of [
    [large, undefined],
    [{ a: 1 }, "br"],
  ] as const) {
    const response = await answerJson(asked(encodings), value);
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(await response.json()).toEqual(value);
  }
});
