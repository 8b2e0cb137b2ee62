import { describe, expect, it } from "vitest";
import { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";
import { createRandom } from "../random.ts";
import { ChainIndex } from "./chain-index.ts";

const user = (content: string): Message => ({ role: "user", content });
const assistant = (content: string): Message => ({ role: "assistant", content });
const chain = (tokens = 1) => new ChainBuilder({ tokens: new Int32Array(tokens), messages: [] });

describe("the chains of conversations that were answered", () => {
  it("are found by who said what, up to the latest reply that is known", () => {
    const index = new ChainIndex();
    const [first, second] = [chain(), chain()];
    index.keep([user("a")], assistant("A"), first);
    index.keep([user("a"), assistant("A"), user("b")], assistant("B"), second);
    expect(index.find([user("a"), assistant("A"), user("c")])).toBe(first);
    expect(index.find([user("a"), assistant("A"), user("b"), assistant("B"), user("c")])).toBe(second);
    expect(index.find([user("a"), assistant("A"), user("b"), assistant("other"), user("c")])).toBe(first);
    for (const messages of [
      [user("a")],
      [user("A"), assistant("A"), user("b")],
      [user("a"), assistant("a"), user("b")],
      [assistant("a"), assistant("A"), user("b")],
      [user("aA"), assistant(""), user("b")],
      [user("aassistant 1 A")],
      [user("a"), assistant("A"), ...["1", "2", "3", "4"].map(assistant), user("b")],
    ]) {
      expect(index.find(messages)).toBeUndefined();
    }
  });

  it("are so many at most, and those go first that were not asked for longest", () => {
    const index = new ChainIndex({ chains: 3, tokens: 100 });
    for (const n of ["1", "2", "3"]) index.keep([user(n)], assistant(n), chain());
    const ask = (n: string) => index.find([user(n), assistant(n), user("?")]);
    expect(ask("1")).toBeDefined();
    for (const n of ["4", "5"]) index.keep([user(n)], assistant(n), chain());
    index.keep([user("5")], assistant("5"), chain());
    expect(index.size).toBe(3);
    expect(["1", "2", "3", "4", "5"].filter((n) => ask(n) !== undefined)).toEqual(["1", "4", "5"]);
    index.keep([user("long")], assistant("long"), chain(99));
    expect(index.size).toBe(2);
    index.keep([user("longer")], assistant("longer"), chain(101));
    expect(index.size).toBe(0);
    index.keep([user("6")], assistant("6"), chain());
    index.clear();
    expect(index.size).toBe(0);
  });

  it("are found whatever a client made of spaces, and told apart by what they called", () => {
    const index = new ChainIndex();
    const calling = (args: string, id = "1"): Message => ({
      ...assistant(""),
      tool_calls: [{ id, type: "function", function: { name: "f", arguments: args } }],
    });
    const [first, second, spaced] = [chain(), chain(), chain()];
    index.keep([user("a")], calling('{"x": 1, "y": 2}'), first);
    index.keep([user("a")], calling('{"x": 2, "y": 2}'), second);
    index.keep([user("b")], assistant(" B\n"), spaced);
    expect(index.find([user("a"), calling('{"y":2,"x":1}', "other"), user("?")])).toBe(first);
    expect(index.find([user("a"), calling('{"x":2,"y":2}'), user("?")])).toBe(second);
    expect(index.find([user("a"), calling('{"x":3,"y":2}'), user("?")])).toBeUndefined();
    expect(index.find([user("a"), assistant(""), user("?")])).toBeUndefined();
    expect(index.find([user("b"), assistant("B"), user("?")])).toBe(spaced);
  });

  it("are kept and found at a cost that does not grow with their number", () => {
    let looks = 0;
    class Counted extends ChainBuilder {
      override get length() {
        looks++;
        return super.length;
      }
      override get reply() {
        looks++;
        return super.reply;
      }
    }
    const index = new ChainIndex({ chains: 4000, tokens: 1 << 20 });
    const cost = (act: () => void) => {
      looks = 0;
      act();
      return looks;
    };
    const costs = Array.from({ length: 5000 }, (_, i) => {
      const one = new Counted({ tokens: [1], messages: [] });
      // Half of them say the same, so that it must be told which is meant.
      const question = i % 2 === 0 ? user("same") : user(String(i));
      const sample = { tokens: [1], logprobs: [0] };
      one.record(
        sample,
        { message: { ...assistant("A"), reasoning: String(i) }, text: String(i), ended: "end-token" },
        1,
      );
      const keep = cost(() => index.keep([question], assistant("A"), one));
      const again = { ...assistant("A"), reasoning: String(i) };
      const find = cost(() => expect(index.find([question, again, user("?")])).toBe(one));
      return keep + find;
    });
    expect(index.size).toBe(4000);
    expect(Math.max(...costs)).toBeLessThan(10);
  });

  it("stay within their tokens, the longest unasked for going first, in thousands", () => {
    const most = { chains: 1500, tokens: 20_000 };
    const index = new ChainIndex(most);
    const random = createRandom(5);
    // The same, by hand.
    let known: { name: string; tokens: number }[] = [];
    for (let i = 0; i < 3000; i++) {
      const name = String(random.below(2500));
      const before = known.find((one) => one.name === name);
      const found = index.find([user(name), assistant(name), user("?")]);
      expect(found !== undefined).toBe(before !== undefined);
      const tokens = random.below(40);
      index.keep([user(name)], assistant(name), chain(tokens));
      known = [...known.filter((one) => one !== before), { name, tokens }];
      const total = () => known.reduce((sum, one) => sum + one.tokens, 0);
      while (known.length > most.chains || total() > most.tokens) known.shift();
      expect(index.size).toBe(known.length);
    }
  });

  it("are told apart by what they thought, and none is taken where nothing tells", () => {
    const index = new ChainIndex();
    const thinking = (reasoning: string) => {
      const one = chain();
      const sample = { tokens: new Int32Array(1), logprobs: new Float32Array(1), version: "v" };
      const text = `<think>${reasoning}</think>A`;
      const reply = { message: { ...assistant("A"), reasoning }, text, ended: "end-token" as const };
      one.record(sample, reply, 1, { learn: false });
      return one;
    };
    const [first, second] = [thinking("one"), thinking("two")];
    index.keep([user("a")], assistant("A"), first);
    expect(index.find([user("a"), assistant("A"), user("b")])).toBe(first);
    index.keep([user("a")], assistant("A"), second);
    expect(index.find([user("a"), { ...assistant("A"), reasoning: "one" }, user("b")])).toBe(first);
    expect(index.find([user("a"), { ...assistant("A"), reasoning: "two" }, user("b")])).toBe(second);
    expect(index.find([user("a"), assistant("A"), user("b")])).toBeUndefined();
    expect(index.find([user("a"), { ...assistant("A"), reasoning: "three" }, user("b")])).toBeUndefined();
    index.keep([user("a")], assistant("A"), first, "mine");
    expect(index.find([user("a"), assistant("A"), user("b")], "mine")).toBe(first);
    expect(index.find([user("a"), assistant("A"), user("b")], "yours")).toBeUndefined();
  });
});
