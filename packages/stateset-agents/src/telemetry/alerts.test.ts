import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { breakerStates } from "../endpoint/breaker.ts";
import type { RunStart } from "../run/callbacks.ts";
import type { Verdict } from "../run/event.ts";
import { safeFetch } from "../safe-fetch.ts";
import { type AlertOptions, alertSender, alertWith } from "./alerts.ts";

vi.mock("../safe-fetch.ts", async (original) => {
  const own = await original<typeof import("../safe-fetch.ts")>();
  return { ...own, safeFetch: vi.fn(own.safeFetch) };
});

const verdict: Verdict = {
  kind: "collapse",
  severity: "critical",
  step: 7,
  message: "It collapses.",
  advice: "Stop it.",
};
let server: Server | undefined;
afterEach(() => server?.close());

async function listen(answer: (body: string) => number | undefined): Promise<string> {
  server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      const status = answer(body);
      if (status !== undefined) response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=hunter2`;
}

async function start(options: AlertOptions, warnings: string[] = []) {
  const alerts = alertWith(options, (message) => warnings.push(message));
  await alerts.onStart!({ id: "polite-1" } as RunStart);
  return alerts;
}

describe("alertWith", () => {
  it("posts each event that was asked for, and each kind of trouble once", async () => {
    const got: unknown[] = [];
    const webhook = await listen((body) => {
      got.push(JSON.parse(body));
      return 204;
    });
    const alerts = await start({ webhook });
    await alerts.onVerdict!(verdict);
    await alerts.onVerdict!({ ...verdict, step: 9 });
    await alerts.onVerdict!({ ...verdict, kind: "length-drift", severity: "note" });
    await alerts.onEnd!({ status: "failed", steps: 9, reason: "NaN three times." });
    await alerts.onEnd!({ status: "interrupted", steps: 9 });
    expect(got).toEqual([
      { kind: "unhealthy", run: "polite-1", steps: 7, message: "It collapses. Stop it." },
      { kind: "failed", run: "polite-1", steps: 9, message: "NaN three times." },
    ]);
  });

  it("remembers from one to the next where the address led: both go by the same list", async () => {
    const sent = vi.mocked(safeFetch);
    sent.mockClear();
    const send = alertSender({ webhook: await listen(() => 204) });
    for (const kind of ["queue-full", "error-rate"] as const) await send({ kind, server: "here", message: "So." });
    const [first, second] = sent.mock.calls.map(([, , { allow }]) => allow);
    expect(first).toBe(second);
  });

  it("sends only the kinds in `on`", async () => {
    let count = 0;
    const webhook = await listen(() => {
      count++;
      return 200;
    });
    const alerts = await start({ webhook, on: ["failed"] });
    await alerts.onEnd!({ status: "finished", steps: 3 });
    expect(count).toBe(0);
  });

  it("warns without the address when the webhook refuses, is away or hangs", async () => {
    const warnings: string[] = [];
    const refusing = await listen(() => 500);
    await (await start({ webhook: refusing }, warnings)).onEnd!({ status: "finished", steps: 3 });
    server!.close();
    await (await start({ webhook: "http://127.0.0.1:9/hook?token=hunter2" }, warnings)).onEnd!({
      status: "finished",
      steps: 3,
    });
    const hanging = await listen(() => undefined);
    await (await start({ webhook: hanging, timeoutMs: 50 }, warnings)).onEnd!({ status: "finished", steps: 3 });
    server!.closeAllConnections();
    expect(warnings).toHaveLength(3);
    expect(warnings[0]).toBe("The finished alert could not be sent by webhook: the server answered 500.");
    expect(warnings[2]).toContain("no answer within 50 ms");
    expect(warnings.join()).not.toContain("hunter2");
  });

  it("runs a command with the alert in its input and environment", async () => {
    const dir = mkdtempSync(join(tmpdir(), "alerts-"));
    const out = join(dir, "out");
    const alerts = await start({ command: `(echo "$STATESET_ALERT_KIND $STATESET_ALERT_RUN"; cat) > ${out}` });
    await alerts.onEnd!({ status: "finished", steps: 12 });
    const [head, body] = readFileSync(out, "utf8").split("\n");
    expect(head).toBe("finished polite-1");
    expect(JSON.parse(body!)).toMatchObject({ kind: "finished", steps: 12 });
    rmSync(dir, { recursive: true });
  });

  it("counts one step as one", async () => {
    const said: unknown[] = [];
    const webhook = await listen((body) => {
      said.push((JSON.parse(body) as { message: string }).message);
      return 204;
    });
    for (const steps of [1, 2]) await (await start({ webhook })).onEnd!({ status: "finished", steps });
    expect(said).toEqual(["The run finished after 1 step.", "The run finished after 2 steps."]);
  });

  it("ends a command that hangs, and warns of one that fails", async () => {
    const warnings: string[] = [];
    await (await start({ command: "sleep 30", timeoutMs: 100 }, warnings)).onEnd!({ status: "finished", steps: 1 });
    await (await start({ command: "exit 3" }, warnings)).onEnd!({ status: "finished", steps: 1 });
    expect(warnings[0]).toContain("still running after 100 ms");
    expect(warnings[1]).toContain("exit 3");
  });
});

describe("alertSender", () => {
  it("hears of a command that fails while the webhook is still waited for", async () => {
    // It never answers, and the command has long failed when its time is up.
    const webhook = await listen(() => undefined);
    const warnings: string[] = [];
    const send = alertSender({ webhook, command: "exit 1", timeoutMs: 300 }, (message) => warnings.push(message));
    await send({ kind: "queue-full", server: "serve", message: "Full." });
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toContain("by command");
  });

  const trouble = { kind: "queue-full", server: "127.0.0.1:8000", message: "The queue is full." } as const;

  it("posts a server's trouble the same way, and never rejects", async () => {
    const got: unknown[] = [];
    const warnings: string[] = [];
    const webhook = await listen((body) => {
      got.push(JSON.parse(body));
      return got.length === 1 ? 204 : 500;
    });
    const send = alertSender({ webhook, on: ["queue-full"] }, (message) => warnings.push(message));
    await send(trouble);
    await send({ ...trouble, kind: "error-rate" });
    await send(trouble);
    expect(got).toEqual([trouble, trouble]);
    expect(warnings).toEqual(["The queue-full alert could not be sent by webhook: the server answered 500."]);
  });

  it("leaves a webhook alone that keeps failing, and tries it again after a while", async () => {
    let [count, status] = [0, 500];
    const webhook = await listen(() => {
      count++;
      return status;
    });
    const warnings: string[] = [];
    const clock = vi.spyOn(performance, "now");
    onTestFinished(() => clock.mockRestore());
    const send = alertSender({ webhook }, (message) => warnings.push(message));
    const target = `webhook ${new URL(webhook).origin}`;
    const state = () => breakerStates().find((one) => one.target === target);
    expect(state()).toEqual({ target, open: false, opened: 0 });
    for (let i = 0; i < 7; i++) await send(trouble);
    expect(count).toBe(5);
    expect(warnings.at(-1)).toMatch(
      /^The queue-full alert could not be sent by webhook: .* left alone for another \d+ s\.$/,
    );
    expect(state()).toEqual({ target, open: true, opened: 1 });
    const later = performance.now() + 31_000;
    clock.mockImplementation(() => later);
    status = 204;
    await send(trouble);
    expect([count, state()!.open]).toEqual([6, false]);
    expect(warnings).toHaveLength(7);
    expect(warnings.join()).not.toMatch(/hunter2|hook\?/);
  });

  it.each([404, 429])("does not take a webhook for dead that answers %i", async (status) => {
    let count = 0;
    const webhook = await listen(() => {
      count++;
      return status;
    });
    const send = alertSender({ webhook }, () => {});
    for (let i = 0; i < 7; i++) await send(trouble);
    expect(count).toBe(7);
  });

  it("tells a command which server it is", async () => {
    const out = join(temporaryFolder(), "out");
    await alertSender({
      command: `echo "$STATESET_ALERT_KIND $STATESET_ALERT_SERVER \${STATESET_ALERT_RUN-none}" > ${out}`,
    })(trouble);
    expect(readFileSync(out, "utf8")).toBe("queue-full 127.0.0.1:8000 none\n");
  });
});
