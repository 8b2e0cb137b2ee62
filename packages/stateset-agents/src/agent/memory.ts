import { readFile } from "node:fs/promises";
import { z } from "zod";
import type { Message } from "../conversation/message.ts";
import { writeFileAtomic } from "../durable.ts";
import { messageOf, StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";

export const memoryOptionsSchema = z.strictObject({
  /** The most turns kept word for word; beyond it the oldest are forgotten. */
  maxTurns: z.int().min(2).default(100),
  /** With more turns than this, the older half is summed up. */
  summarizeAbove: z.int().min(2).default(50),
  /** How many turns of earlier conversations are shown word for word. */
  recallTurns: z.int().min(0).default(6),
});

export type MemoryOptions = z.input<typeof memoryOptionsSchema>;

const storedSchema = z.strictObject({
  version: z.literal(1),
  options: memoryOptionsSchema,
  summary: z.string(),
  forgotten: z.int(),
  turns: z.array(
    z.strictObject({
      conversationId: z.string(),
      role: z.enum(["user", "assistant"]),
      content: z.string(),
    }),
  ),
});

type Stored = z.output<typeof storedSchema>;
export type MemoryTurn = Stored["turns"][number];

/** Writes a summary of messages; a MultiTurnAgent passes its own model. */
export type Summarize = (messages: readonly Message[]) => Promise<string>;

/**
 * What an agent remembers of earlier conversations: the newest turns word for word, everything older as a summary.
 * It outlives conversations; give the same memory to an agent again, or save() and load() it.
 */
export class ConversationMemory {
  readonly options: z.output<typeof memoryOptionsSchema>;
  #turns: MemoryTurn[] = [];
  #summary = "";
  #forgotten = 0;
  #summarizing: Promise<void> | undefined;

  constructor(options: MemoryOptions = {}) {
    this.options = parseOptions(memoryOptionsSchema, options, "ConversationMemory");
    if (this.options.summarizeAbove > this.options.maxTurns) {
      throw new StatesetError(
        "INVALID_OPTION",
        `summarizeAbove (${this.options.summarizeAbove}) is more than maxTurns (${this.options.maxTurns}).`,
        { hint: "Turns would be forgotten before they are summed up. Lower summarizeAbove." },
      );
    }
  }

  get turns(): readonly MemoryTurn[] {
    return this.#turns;
  }

  get summary(): string {
    return this.#summary;
  }

  /** Turns that were dropped without being summed up. */
  get forgotten(): number {
    return this.#forgotten;
  }

  get needsSummary(): boolean {
    return this.#turns.length > this.options.summarizeAbove;
  }

  add(conversationId: string, ...messages: readonly Message[]): void {
    for (const { role, content } of messages) {
      if (role === "user" || role === "assistant") this.#turns.push({ conversationId, role, content });
    }
    const surplus = this.#turns.length - this.options.maxTurns;
    if (surplus > 0) {
      this.#turns.splice(0, surplus);
      this.#forgotten += surplus;
    }
  }

  /** Sums up all but the newest half of `summarizeAbove`. Does nothing when there is little to sum up. */
  async condense(summarize: Summarize): Promise<void> {
    this.#summarizing ??= this.#condense(summarize).finally(() => {
      this.#summarizing = undefined;
    });
    return this.#summarizing;
  }

  async #condense(summarize: Summarize): Promise<void> {
    if (!this.needsSummary) return;
    const old = this.#turns.slice(0, this.#turns.length - Math.floor(this.options.summarizeAbove / 2));
    const earlier: Message[] = this.#summary ? [{ role: "system", content: this.#summary }] : [];
    const summary = await summarize([...earlier, ...old.map(({ role, content }) => ({ role, content }))]);
    this.#summary = summary;
    // Turns may have been added, or forgotten, while the model wrote.
    const summed = new Set(old);
    this.#turns = this.#turns.filter((turn) => !summed.has(turn));
  }

  /** What a prompt should say of earlier conversations; empty when there is nothing. The current one is left out. */
  recall(currentConversationId?: string): string {
    const { recallTurns } = this.options;
    const others = this.#turns.filter((turn) => turn.conversationId !== currentConversationId);
    const recent = recallTurns === 0 ? [] : others.slice(-recallTurns);
    return [
      this.#summary && `What you remember of earlier conversations: ${this.#summary}`,
      recent.length > 0 &&
        `Last said in earlier conversations:\n${recent.map((turn) => `${turn.role}: ${turn.content}`).join("\n")}`,
    ]
      .filter(Boolean)
      .join("\n\n");
  }

  clear(): void {
    this.#turns = [];
    this.#summary = "";
    this.#forgotten = 0;
  }

  toJSON(): Stored {
    return {
      version: 1,
      options: this.options,
      summary: this.#summary,
      forgotten: this.#forgotten,
      turns: this.#turns,
    };
  }

  static fromJSON(value: unknown, where = "ConversationMemory"): ConversationMemory {
    const stored = parseOptions(storedSchema, value, where, "INVALID_DATA");
    const memory = new ConversationMemory(stored.options);
    memory.#turns = stored.turns;
    memory.#summary = stored.summary;
    memory.#forgotten = stored.forgotten;
    return memory;
  }

  /** Replaces the file at once; a crash leaves the old one. */
  async save(path: string): Promise<void> {
    writeFileAtomic(path, `${JSON.stringify(this)}\n`);
  }

  static async load(path: string): Promise<ConversationMemory> {
    let value: unknown;
    try {
      value = JSON.parse(await readFile(path, "utf8"));
    } catch (error) {
      throw new StatesetError("INVALID_DATA", `No memory could be read from ${path}: ${messageOf(error)}.`, {
        cause: error,
      });
    }
    return ConversationMemory.fromJSON(value, path);
  }
}
