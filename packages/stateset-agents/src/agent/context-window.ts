import { z } from "zod";
import type { Message } from "../conversation/message.ts";

export const contextStrategies = ["truncate", "sliding-window", "summary"] as const;

export const contextWindowSchema = z.strictObject({
  /**
   * truncate: when the prompt no longer fits, the oldest messages go. sliding-window: only the newest `turns` messages are ever
   * shown. summary: when the prompt no longer fits, the model sums up the oldest messages, and the summary takes their place.
   */
  strategy: z.enum(contextStrategies),
  /** How much of the room a cut leaves filled. Lower cuts deeper, but less often. */
  keep: z.number().gt(0).lte(1).default(0.5),
  /** sliding-window: how many messages are shown. */
  turns: z.int().min(1).default(8),
  /** summary: the longest summary, in tokens. */
  summaryTokens: z.int().min(8).default(96),
});

export type ContextWindowOptions = z.input<typeof contextWindowSchema>;

export interface FitRequest {
  /** The system prompt; undefined when there is none. */
  system: string | undefined;
  /** Its role. Default "system". */
  systemRole?: Message["role"] | undefined;
  /** The conversation after it. */
  messages: readonly Message[];
  /** Prompt tokens that may be used. */
  budget: number;
  countTokens(messages: readonly Message[]): number;
  summarize(messages: readonly Message[], maxTokens: number): Promise<string>;
}

/**
 * Makes one conversation fit its model. Where it was cut is remembered, so that until the next cut prompts keep growing at the
 * end only and their tokens stay one chain.
 */
export class ContextWindow {
  readonly #options: z.output<typeof contextWindowSchema>;
  #from = 0;
  #summary = "";

  constructor(options: ContextWindowOptions) {
    this.#options = contextWindowSchema.parse(options);
  }

  /** The prompt's messages, or undefined when not even the newest user message fits. */
  async fit(request: FitRequest): Promise<Message[] | undefined> {
    const { strategy, turns, keep, summaryTokens } = this.#options;
    const { messages, budget, countTokens } = request;
    if (strategy === "sliding-window")
      this.#from = Math.max(this.#from, startAtUser(messages, messages.length - turns));
    const prompt = this.#prompt(request);
    if (countTokens(prompt) <= budget) return prompt;

    const room = strategy === "summary" ? budget - summaryTokens : budget;
    const cut = this.#findCut(request, Math.floor(room * keep)) ?? this.#findCut(request, room);
    if (cut === undefined) return undefined;
    if (strategy === "summary") {
      const earlier: Message[] = this.#summary ? [{ role: "system", content: this.#summary }] : [];
      this.#summary = await request.summarize([...earlier, ...messages.slice(this.#from, cut)], summaryTokens);
    }
    this.#from = cut;
    const fitted = this.#prompt(request);
    return countTokens(fitted) <= budget ? fitted : undefined;
  }

  #prompt({ system, systemRole = "system", messages }: FitRequest, from = this.#from): Message[] {
    const parts = [system ?? "", this.#summary && `The conversation so far, in short: ${this.#summary}`].filter(
      Boolean,
    );
    const head: Message[] = parts.length > 0 ? [{ role: systemRole, content: parts.join("\n\n") }] : [];
    return [...head, ...messages.slice(from)];
  }

  /** The first user message from which on the prompt takes at most `budget` tokens. */
  #findCut(request: FitRequest, budget: number): number | undefined {
    const starts = [...request.messages.keys()].filter((i) => i > this.#from && request.messages[i]!.role === "user");
    // A later start is a shorter prompt, so halving finds it without rendering a long conversation again and again.
    let [low, high] = [0, starts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (request.countTokens(this.#prompt(request, starts[middle]!)) <= budget) high = middle;
      else low = middle + 1;
    }
    return starts[low];
  }
}

/** A prompt that begins with an assistant message confuses chat templates; move to the user message at or after `from`. */
function startAtUser(messages: readonly Message[], from: number): number {
  const start = Math.max(0, from);
  const user = messages.findIndex((message, i) => i >= start && message.role === "user");
  return user < 0 ? start : user;
}
