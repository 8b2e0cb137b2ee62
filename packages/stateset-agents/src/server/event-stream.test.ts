import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { EventStream } from "./event-stream.ts";
import { HttpError } from "./http-error.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

function opened() {
  const left = vi.fn();
  const stream = new EventStream({ keepAliveMs: 500, stalledMs: 2000, onLeft: left });
  return { stream, left };
}
const read = async (reader: ReadableStreamDefaultReader<Uint8Array>) =>
  Buffer.from((await reader.read()).value ?? []).toString("utf8");

it("writes events, and says when the last was handed over", async () => {
  const { stream, left } = opened();
  stream.send('{"a":1}');
  stream.send("[DONE]");
  stream.end();
  stream.send("never");
  expect(await new Response(stream.body).text()).toBe('data: {"a":1}\n\ndata: [DONE]\n\n');
  expect(await stream.done).toBe("sent");
  expect(left).not.toHaveBeenCalled();
});

it("names events, and says where to go on", async () => {
  const { stream } = opened();
  stream.mark("a-0", 1000);
  stream.send("{}", { event: "steps", id: "a-1" });
  stream.end();
  expect(await new Response(stream.body).text()).toBe("id: a-0\nretry: 1000\n\nevent: steps\nid: a-1\ndata: {}\n\n");
});

it("tells of a failure in an event, which is the last", async () => {
  const { stream } = opened();
  stream.fail(new HttpError(503, "It broke.", { code: "engine_failed" }));
  const error = { message: "It broke.", type: "server_error", param: null, code: "engine_failed" };
  expect(await new Response(stream.body).text()).toBe(`data: ${JSON.stringify({ error })}\n\n`);
});

it("sends a comment when there was nothing for long, and none while there is", async () => {
  const { stream } = opened();
  const reader = stream.body.getReader();
  vi.advanceTimersByTime(400);
  stream.send("1");
  vi.advanceTimersByTime(400);
  stream.send("2");
  vi.advanceTimersByTime(800);
  stream.end();
  const told = [await read(reader), await read(reader), await read(reader), await read(reader)];
  expect(told).toEqual(["data: 1\n\n", "data: 2\n\n", ": still here\n\n", ""]);
});

const much = "x".repeat(1 << 16);

it("lets go of a reader that takes nothing for long", async () => {
  const { stream, left } = opened();
  const reader = stream.body.getReader();
  stream.send(much);
  vi.advanceTimersByTime(1900);
  expect(left).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1000);
  expect(left).toHaveBeenCalledOnce();
  expect(await stream.done).toBe("left");
  await expect(reader.read()).rejects.toMatchObject({ details: { code: "stalled" } });
});

it("keeps a reader that reads, however much lies there at times", async () => {
  const { stream, left } = opened();
  const reader = stream.body.getReader();
  for (let i = 0; i < 5; i++) {
    stream.send(much);
    vi.advanceTimersByTime(1500);
    // What was sent, and comments since.
    for (let unread = 0; unread < 4; unread++) {
      const got = await read(reader);
      if (got.startsWith("data")) break;
    }
  }
  expect(left).not.toHaveBeenCalled();
  stream.end();
});

it("hears that its reader left", async () => {
  const { stream, left } = opened();
  await stream.body.cancel();
  expect(left).toHaveBeenCalledOnce();
  expect(await stream.done).toBe("left");
  stream.send("to nobody");
  stream.end();
});
