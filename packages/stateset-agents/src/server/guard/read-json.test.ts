import { describe, expect, it } from "vitest";
import { HttpError } from "../http-error.ts";
import { readJson } from "./read-json.ts";

type Init = { type?: string | null; headers?: Record<string, string>; signal?: AbortSignal };

function requestWith(
  body: NonNullable<RequestInit["body"]>,
  { type = "application/json", headers = {}, signal }: Init = {},
): Request {
  return new Request("http://localhost/v1/x", {
    method: "POST",
    body,
    headers: { ...headers, ...(type !== null && { "content-type": type }) },
    // Node wants it for a body that is a stream; the types do not know it.
    ...({ duplex: "half" } as object),
    ...(signal && { signal }),
  });
}

const bytes = (...values: number[]) => new Uint8Array(values);
/** A body that sends these and then nothing, for ever. */
function hanging(text: string, cancelled = () => {}): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: (into) => into.enqueue(new TextEncoder().encode(text)),
    cancel: cancelled,
  });
}

async function refusal(request: Request, limits: Partial<Parameters<typeof readJson>[1]> = {}): Promise<HttpError> {
  const error: unknown = await readJson(request, { maxBytes: 1000, ...limits }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(HttpError);
  return error as HttpError;
}

describe("readJson", () => {
  it("reads JSON, says how long it was, and takes a byte order mark", async () => {
    expect(await readJson(requestWith('{"a":["é"]}'), { maxBytes: 100 })).toEqual({ value: { a: ["é"] }, bytes: 12 });
    expect((await readJson(requestWith('\ufeff{"a":1}'), { maxBytes: 100 })).value).toEqual({ a: 1 });
    for (const type of ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
      expect((await readJson(requestWith("1", { type }), { maxBytes: 100 })).value).toBe(1);
  });

  it.each([
    null,
    "text/plain",
    "application/json; charset=latin1",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/x-www-form-urlencoded",
  ])("answers content-type %s with 415", async (type) => {
    expect((await refusal(requestWith(new TextEncoder().encode("{}"), { type }))).status).toBe(415);
  });

  it("does not unpack what was compressed", async () => {
    expect((await refusal(requestWith("{}", { headers: { "content-encoding": "gzip" } }))).status).toBe(415);
  });

  it("breaks off a body that is too long, whatever it said of its length", async () => {
    let sent = 0;
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull(into) {
        sent += 100;
        into.enqueue(new Uint8Array(100).fill(32));
      },
      cancel() {
        cancelled = true;
      },
    });
    expect((await refusal(requestWith(endless))).status).toBe(413);
    expect(cancelled).toBe(true);
    expect(sent).toBeLessThan(2000);
    const said = await refusal(requestWith(hanging("{}"), { headers: { "content-length": "1001" } }));
    expect(said.toBody().error).toMatchObject({ type: "invalid_request_error", code: "body_too_large" });
    expect((await readJson(requestWith(`"${"a".repeat(998)}"`), { maxBytes: 1000 })).bytes).toBe(1000);
    expect((await refusal(requestWith(`"${"a".repeat(999)}"`))).status).toBe(413);
  });

  it("says where JSON is malformed, and not what was there", async () => {
    const error = await refusal(requestWith('{"a": "canary",\n  "b": canary}'));
    expect(error.status).toBe(400);
    expect(error.message).toBe("The body is malformed: a value was expected, at line 2, column 8 (position 23).");
    expect(JSON.stringify(error.toBody()) + error.stack).not.toContain("canary");
  });

  it.each([
    ["", /is empty/],
    [" \n", /is empty/],
    [`${"[".repeat(65)}${"]".repeat(65)}`, /deeper than 64 levels, at line 1, column 65/],
    ['{"x":{"__proto__":{"admin":true}}}', /a key that is not allowed/],
  ])("answers %j with 400", async (body, said) => {
    const error = await refusal(requestWith(body));
    expect([error.status, error.message]).toEqual([400, expect.stringMatching(said)]);
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });

  it.each([
    ["cut short", bytes(0x22, 0xc3, 0x22)],
    ["overlong", bytes(0x22, 0xc0, 0xaf, 0x22)],
    ["a surrogate", bytes(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ["of no kind", bytes(0x22, 0xff, 0x22)],
  ])("refuses UTF-8 that is %s", async (_, body) => {
    expect((await refusal(requestWith(body))).message).toBe("The body is not UTF-8.");
  });

  it("ends a body that does not arrive with 408", async () => {
    let cancelled = false;
    const error = await refusal(requestWith(hanging('{"a":', () => (cancelled = true))), { timeoutMs: 20 });
    expect([error.status, error.toBody().error.type]).toEqual([408, "timeout_error"]);
    expect(cancelled).toBe(true);
  });

  it("ends when the client leaves, by its signal or by a broken stream", async () => {
    const client = new AbortController();
    const waiting = refusal(requestWith(hanging("{"), { signal: client.signal }));
    client.abort();
    expect((await waiting).status).toBe(499);
    const broken = new ReadableStream<Uint8Array>({ pull: (into) => into.error(new Error("reset")) });
    expect((await refusal(requestWith(broken))).toBody().error.code).toBe("client_closed");
  });
});
