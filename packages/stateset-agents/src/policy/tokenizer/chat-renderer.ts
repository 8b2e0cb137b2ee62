import type { Message } from "../../conversation/message.ts";
import type { RenderOptions } from "../policy.ts";
import type { ForeignText } from "./foreign-text.ts";

/**
 * Prints a conversation, with everything in it that somebody wrote put through `foreign`. Throws when the template has no place
 * for these messages.
 */
export type ChatRenderer = (messages: readonly Message[], options: RenderOptions, foreign: ForeignText) => string;
