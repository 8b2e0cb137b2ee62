import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { StatesetError } from "../../error.ts";
import { createRandom } from "../../random.ts";
import { type FakeCall, type FakeScript, type FakeWorker, startFakeWorker } from "../../test-support/fake-worker.ts";
import { Connection, type ConnectionOptions, type Loss } from "./connection.ts";
import { encodeFrame } from "./frame.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A connection to a scripted worker; what was lost is told by its error's message. */
async function connected(
  script: FakeScript,
  options: Partial<ConnectionOptions> = {},
): Promise<{ connection: Connection; worker: FakeWorker; losses: Loss[] }> {
  const worker = await startFakeWorker(temporaryFolder(), script);
  const losses: Loss[] = [];
  const explain = (loss: Loss) => {
    losses.push(loss);
    return new StatesetError("WORKER_LOST", `The worker ${loss.what}.`);
  };
  const connection = new Connection(connect(worker.path), { deadlineMs: 60_000, explain, ...options });
  closing.push(
    () => worker.close(),
    () => connection.close(new StatesetError("POLICY_CLOSED", "The test is over.")),
  );
  connection.trust();
  return { connection, worker, losses };
}

const lost = (message: RegExp) =>
  expect.objectContaining({ code: "WORKER_LOST", message: expect.stringMatching(message) });

describe("a call", () => {
  it("gets its own answer, whatever the order they come in", async () => {
    const held: FakeCall[] = [];
    const { connection } = await connected((call) => {
      held.push(call);
      if (held.length < 3) return;
      for (const one of held.reverse())
        one.answer({ ok: true, said: one.frame.envelope.word }, { numbers: one.frame.arrays.numbers! });
    });
    const calls = ["a", "b", "c"].map((word, i) =>
      connection.call("echo", { word }, { numbers: Float32Array.of(i, i + 0.5) }),
    );
    const replies = await Promise.all(calls);
    expect(replies.map((reply) => reply.text("said"))).toEqual(["a", "b", "c"]);
    expect(replies.map((reply) => [...reply.floats("numbers", 2)])).toEqual([
      [0, 0.5],
      [1, 1.5],
      [2, 2.5],
    ]);
  });

  it("gets events before its end, and what the worker refuses as an error of the library", async () => {
    const { connection } = await connected(({ op, answer }) => {
      if (op === "sample") {
        for (const token of [4, 5]) answer({ event: "tokens" }, { tokens: Int32Array.of(token) });
        answer({ ok: true });
      } else if (op === "forward") {
        answer({ ok: false, error: { code: "OUT_OF_MEMORY", message: "no room for 4096 tokens", hint: "Lower it." } });
      } else answer({ ok: false, error: { code: "SOMETHING_NEW", message: "odd" } });
    });
    const seen: number[] = [];
    await connection.call("sample", {}, {}, (event) => void seen.push(...event.ints("tokens")));
    expect(seen).toEqual([4, 5]);
    await expect(connection.call("forward")).rejects.toMatchObject({ code: "OUT_OF_MEMORY", hint: "Lower it." });
    await expect(connection.call("other")).rejects.toMatchObject({ code: "ENGINE_FAILED", message: "odd" });
  });

  it("names what an answer lacks, or has in another form", async () => {
    const { connection } = await connected(({ answer }) =>
      answer({ ok: true, count: -1 }, { logprobs: Int32Array.of(1) }),
    );
    const reply = await connection.call("forward");
    for (const read of [
      () => reply.count("count"),
      () => reply.number("missing"),
      () => reply.flag("count"),
      () => reply.text("count"),
      () => reply.floats("logprobs"),
      () => reply.ints("logprobs", 2),
      () => reply.floats("toString"),
    ]) {
      expect(read).toThrowError(expect.objectContaining({ code: "ENGINE_FAILED" }));
    }
    expect([...reply.ints("logprobs", 1)]).toEqual([1]);
  });

  it("is refused here where it is larger than the other side takes, and the connection goes on", async () => {
    const worker = await startFakeWorker(temporaryFolder(), ({ answer }) => answer({ ok: true }));
    const explain = () => new StatesetError("WORKER_LOST", "gone");
    const connection = new Connection(connect(worker.path), { deadlineMs: 60_000, explain });
    closing.push(
      () => worker.close(),
      () => connection.close(new StatesetError("POLICY_CLOSED", "The test is over.")),
    );
    const much = { numbers: new Float32Array(2 ** 15) };
    await expect(connection.call("forward", {}, much)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    connection.trust();
    await connection.call("forward", {}, much);
  });

  it("is cancelled by its number, and still answered", async () => {
    const { connection, worker } = await connected(({ op, frame, socket }) => {
      if (op === "cancel")
        socket.write(Buffer.concat(encodeFrame({ id: frame.envelope.target, ok: true, finish: "aborted" })));
    });
    const running = connection.call("sample");
    connection.tell("cancel", { target: running.id });
    expect((await running).text("finish")).toBe("aborted");
    expect(worker.ops).toEqual(["sample", "cancel"]);
  });
});

describe("everything that waits is told when the worker", () => {
  it.each<[string, FakeScript, RegExp]>([
    ["closes the connection", ({ socket }) => socket.end(), /closed the connection/],
    [
      "breaks off within a frame",
      ({ socket }) => socket.end(encodeFrame({ id: 1, ok: true })[0]!.subarray(0, 20)),
      /closed/,
    ],
    ["announces more than is allowed", ({ write }) => write(Buffer.alloc(8, 0xff)), /broke the protocol.*at most/],
    [
      "sends what is no frame",
      ({ write }) => write(Buffer.concat([Buffer.of(16, 0, 0, 0, 0, 0, 0, 0), Buffer.alloc(16, 7)])),
      /broke the protocol/,
    ],
    ["answers a call that nobody made", ({ write }) => write(...encodeFrame({ id: 999, ok: true })), /call 999/],
    [
      "answers the same call twice",
      ({ op, answer }) => op === "first" && [answer({ ok: true }), answer({ ok: true })],
      /which nobody waits for/,
    ],
    ["neither grants nor refuses", ({ answer }) => answer({ maybe: true }), /neither granted nor refused/],
  ])("%s", async (_, script, message) => {
    const { connection, losses } = await connected(script);
    const calls = [connection.call("first").catch(() => {}), connection.call("second"), connection.call("third")];
    const outcomes = await Promise.allSettled(calls.slice(1));
    expect(outcomes).toEqual([1, 2].map(() => ({ status: "rejected", reason: lost(message) })));
    expect(losses).toHaveLength(1);
    expect(connection.lost).toBe(true);
    await expect(connection.call("later")).rejects.toEqual(lost(message));
    connection.tell("release", { pass: 1 });
  });

  it("leaves three heartbeats without an answer", async () => {
    const { connection, losses } = await connected(() => {}, { pingMs: 20 });
    await expect(connection.call("forward")).rejects.toEqual(lost(/3 heartbeats/));
    expect(losses).toEqual([{ what: expect.anything(), stalled: true }]);
  });

  it("answers heartbeats but gets nowhere; it is asked where it stands", async () => {
    const alive: FakeScript = ({ op, answer }) => {
      if (op === "ping") answer({ ok: true, busy: { op: "forward", seconds: 1 } });
      if (op === "stacks") answer({ ok: true, text: "in forward, line 3" });
    };
    const { connection, losses } = await connected(alive, { pingMs: 10, deadlineMs: 100 });
    await expect(connection.call("forward")).rejects.toEqual(lost(/got nowhere with forward/));
    expect(losses[0]).toMatchObject({ stalled: true, stacks: "in forward, line 3" });
  });

  it("is told of a loss that cannot be explained, too", async () => {
    const explain = () => {
      throw new Error("the disk is full");
    };
    const { connection } = await connected(({ socket }) => socket.destroy(), { explain });
    await expect(connection.call("forward")).rejects.toMatchObject({
      ...{ code: "WORKER_LOST", hint: "Why could not be found out: the disk is full." },
    });
  });

  it("is lost to whoever noticed it first, and only once", async () => {
    const { connection, losses } = await connected(() => {});
    const waiting = connection.call("forward");
    await connection.lose("ended by SIGKILL");
    await expect(waiting).rejects.toEqual(lost(/SIGKILL/));
    expect(losses).toHaveLength(1);
  });
});

it("waits as long as anything comes of other calls", async () => {
  let ticks = 0;
  const { connection } = await connected(
    ({ op, id, answer, write }) => {
      if (op === "ping") answer({ ok: true, busy: null });
      if (op !== "sample") return;
      const timer = setInterval(() => {
        if (++ticks < 24) return answer({ event: "tokens" }, { tokens: Int32Array.of(ticks) });
        clearInterval(timer);
        write(...encodeFrame({ id: id - 1, ok: true }));
        answer({ ok: true });
      }, 30);
    },
    { pingMs: 10, deadlineMs: 600 },
  );
  await Promise.all([connection.call("forward"), connection.call("sample")]);
  expect(ticks).toBe(24);
});

it("survives 2,000 damaged frames: each call is answered or lost, never left", async () => {
  const random = createRandom(17);
  const damage = (bytes: Buffer): Buffer => {
    const changed = Buffer.from(bytes);
    for (let i = 0; i <= random.below(4); i++) {
      // Mostly the header, where there is more to get wrong.
      const at = random.below(random.next() < 0.7 ? Math.min(changed.length, 160) : changed.length);
      changed[at] = random.next() < 0.5 ? random.below(256) : changed[at]! ^ (1 << random.below(8));
    }
    return random.next() < 0.2 ? changed.subarray(0, random.below(changed.length)) : changed;
  };
  const outcomes = { answered: 0, refused: 0, lost: 0 };
  const worker = await startFakeWorker(temporaryFolder(), ({ id, socket }) => {
    const arrays = { tokens: Int32Array.of(1, 2, 3), logprobs: Float32Array.of(-1, -2, -3) };
    socket.end(damage(Buffer.concat(encodeFrame({ id, ok: true, finish: "stop", count: 3, cached: 0 }, arrays))));
  });
  closing.push(() => worker.close());
  for (let i = 0; i < 2_000; i++) {
    const explain = (loss: Loss) => new StatesetError("WORKER_LOST", loss.what);
    const connection = new Connection(connect(worker.path), { deadlineMs: 60_000, explain });
    try {
      const reply = await connection.call("sample");
      for (const read of [() => reply.ints("tokens"), () => reply.floats("logprobs", 3), () => reply.text("finish")]) {
        expect(() => void read()).not.toThrowError(TypeError);
      }
      outcomes.answered++;
    } catch (error) {
      expect(StatesetError.isInstance(error) && (error.code === "WORKER_LOST" || error.code === "ENGINE_FAILED")).toBe(
        true,
      );
      outcomes[StatesetError.isInstance(error) && error.code === "WORKER_LOST" ? "lost" : "refused"]++;
    }
    connection.close(new StatesetError("POLICY_CLOSED", "next"));
  }
  expect(outcomes.lost).toBeGreaterThan(200);
  expect(outcomes.answered).toBeGreaterThan(20);
});
