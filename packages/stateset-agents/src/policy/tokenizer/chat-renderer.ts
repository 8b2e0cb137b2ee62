import type { Message } from "../../conversation/message.ts";
import type { RenderOptions } from "../policy.ts";
import type { TracedText } from "./traced-text.ts";

export interface ChatRenderer {
  /**
   * Prints a conversation; everything in it that somebody wrote is foreign, and of the message at index `reply` marked apart. Throws
   * when the template has no place for these messages.
   */
  print(messages: readonly Message[], options: RenderOptions, reply?: number): TracedText;
  /** Strings it may look for in messages and decide by, such as `/no_think`. */
  readonly lookedFor: readonly string[];
  /** Whether it was ever seen to decide by anything else about what is said, such as its length. */
  readonly measures: boolean;
}
