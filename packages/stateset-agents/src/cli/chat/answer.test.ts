import { describe, expect, it } from "vitest";
import type { Agent } from "../../agent/agent.ts";
import { MultiTurnAgent } from "../../agent/multi-turn-agent.ts";
import { StatesetError } from "../../error.ts";
import { tool } from "../../tool/tool.ts";
import type { CliIo } from "../io.ts";
import { answer, type Speaker } from "./answer.ts";

const speaking = (name: string, pieces: () => AsyncGenerator<string>): Speaker => ({
  name,
  agent: { stream: pieces } as unknown as Agent,
  messages: [],
});

function screen(rows = 24) {
  const writes: string[] = [];
  const stdout = { isTTY: true, columns: 60, rows, write: (text: string) => void writes.push(text) };
  return { writes, io: { stdout, stderr: stdout, env: { NO_COLOR: "1" } } as unknown as CliIo };
}

const signal = () => new AbortController().signal;

describe("answer", () => {
  it("streams two replies side by side, each piece as it comes", async () => {
    const { writes, io } = screen();
    const speakers = [
      speaking("one", async function* () {
        yield "left ";
        yield "side";
      }),
      speaking("two", async function* () {
        yield "right";
      }),
    ];
    await answer(speakers, "hi", { signal: signal(), live: true }, io);
    expect(writes.filter((text) => text.startsWith("\u001b["))).toHaveLength(3);
    expect(writes.join("")).toContain("left side                    │ right");
    expect(speakers.map(({ messages }) => messages.at(-1)?.content)).toEqual(["left side", "right"]);
  });

  it("ends with what was said when it is stopped, of one speaker or two", async () => {
    const stop = new AbortController();
    const stopped = async function* () {
      yield "as far as ";
      stop.abort();
      throw new StatesetError("ABORTED", "stopped");
    };
    const { writes, io } = screen();
    const speakers = [speaking("one", stopped), speaking("two", stopped)];
    await answer(speakers, "hi", { signal: stop.signal, live: true }, io);
    expect(speakers[1]!.messages.at(-1)?.content).toBe("as far as ");
    expect(writes.join("")).toContain("(stopped)");
  });

  it("shows what the agent does with its tools, in order, and keeps it for what follows", async () => {
    const queue = ['One moment.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', "It is 2."];
    const agent = new MultiTurnAgent({
      stub: { replies: () => queue.shift()! },
      tools: [tool({ name: "add", execute: () => ({ sum: 2 }) })],
    });
    await agent.initialize();
    const { writes, io } = screen();
    const speakers = [{ name: "one", agent, messages: [] }] satisfies Speaker[];
    await answer(speakers, "1 + 1?", { signal: signal(), live: true }, io);
    expect(writes.join("")).toBe('agent ▸ One moment.\n  → add {"a": 1}\n  ← {"sum":2}\nIt is 2.\n\n');
    expect((speakers[0] as Speaker).messages.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
    ]);
    await agent.close();
  });

  it("changes nobody's conversation when one of two fails", async () => {
    const { io } = screen();
    const speakers = [
      speaking("one", async function* () {
        yield "fine";
      }),
      // biome-ignore lint/correctness/useYield: it fails before it says anything
      speaking("two", async function* () {
        throw new StatesetError("CONTEXT_OVERFLOW", "too long");
      }),
    ];
    await expect(answer(speakers, "hi", { signal: signal(), live: true }, io)).rejects.toThrow("too long");
    expect(speakers.map(({ messages }) => messages)).toEqual([[], []]);
  });

  it("never moves the cursor above the screen", async () => {
    const { writes, io } = screen(8);
    const speakers = [
      speaking("one", async function* () {
        for (let i = 0; i < 40; i++) yield "a line of words that is long ";
      }),
      speaking("two", async function* () {}),
    ];
    await answer(speakers, "hi", { signal: signal(), live: true }, io);
    const moves = writes.flatMap((text) => [...text.matchAll(/\[(\d+)A/g)].map((match) => Number(match[1])));
    expect(Math.max(...moves)).toBeLessThan(8);
  });
});
