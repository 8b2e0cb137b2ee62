import { describe, expect, it } from "vitest";
import type { Message } from "../conversation/message.ts";
import { ContextWindow, type FitRequest } from "./context-window.ts";

const conversation = (count: number): Message[] =>
  Array.from({ length: count }, (_, i) => ({
    role: i % 2 ? "assistant" : "user",
    content: `m${i} `.repeat(10).trim(),
  }));
const request = (messages: Message[], budget: number, more: Partial<FitRequest> = {}): FitRequest => ({
  system: "sys",
  messages,
  budget,
  countTokens: (prompt) => prompt.reduce((sum, { content }) => sum + content.split(" ").length, 0),
  summarize: async (part) => `sum of ${part.length}`,
  ...more,
});
const names = (prompt: Message[] | undefined) => prompt?.map(({ content }) => content.split(" ")[0]);

describe("ContextWindow", () => {
  it("leaves alone what fits", async () => {
    const window = new ContextWindow({ strategy: "truncate" });
    expect(names(await window.fit(request(conversation(3), 31)))).toEqual(["sys", "m0", "m1", "m2"]);
  });

  it("cuts to the share it keeps, at a user message, and then keeps the cut until it is full again", async () => {
    const window = new ContextWindow({ strategy: "truncate", keep: 0.5 });
    expect(names(await window.fit(request(conversation(9), 81)))).toEqual(["sys", "m6", "m7", "m8"]);
    expect(names(await window.fit(request(conversation(11), 81)))).toEqual(["sys", "m6", "m7", "m8", "m9", "m10"]);
    expect(names(await window.fit(request(conversation(13), 81)))?.[1]).toBe("m6");
    expect(names(await window.fit(request(conversation(15), 81)))).toEqual(["sys", "m12", "m13", "m14"]);
  });

  it("uses all the room when the share is too little for one message, and gives up when that is too little too", async () => {
    expect(names(await new ContextWindow({ strategy: "truncate" }).fit(request(conversation(5), 15)))).toEqual([
      "sys",
      "m4",
    ]);
    expect(await new ContextWindow({ strategy: "truncate" }).fit(request(conversation(5), 8))).toBeUndefined();
  });

  it("slides: only the newest messages, from a user message on", async () => {
    const window = new ContextWindow({ strategy: "sliding-window", turns: 4 });
    expect(names(await window.fit(request(conversation(9), 1000)))).toEqual(["sys", "m6", "m7", "m8"]);
    expect(names(await window.fit(request(conversation(3), 1000)))).toBeDefined();
  });

  it("sums up what it cuts, and later the summary with what follows", async () => {
    const parts: number[] = [];
    const summarize = async (part: readonly Message[]) => {
      parts.push(part.length);
      return `summary${parts.length}`;
    };
    const window = new ContextWindow({ strategy: "summary", summaryTokens: 8 });
    const first = await window.fit(request(conversation(9), 81, { summarize }));
    expect(first![0]!.content).toBe("sys\n\nThe conversation so far, in short: summary1");
    expect(names(first)!.slice(1)).toEqual(["m6", "m7", "m8"]);
    const second = await window.fit(request(conversation(17), 81, { summarize }));
    expect(second![0]!.content).toContain("summary2");
    expect(parts).toEqual([6, 11]);
  });

  it("asks for the length of a long conversation only a few times", async () => {
    let counts = 0;
    const messages = conversation(2001);
    const countTokens = (prompt: readonly Message[]) => {
      counts++;
      return prompt.length * 10;
    };
    const fitted = await new ContextWindow({ strategy: "truncate" }).fit(request(messages, 200, { countTokens }));
    expect(fitted!.length).toBeLessThanOrEqual(10);
    expect(fitted!.length).toBeGreaterThan(7);
    expect(counts).toBeLessThan(20);
  });
});
