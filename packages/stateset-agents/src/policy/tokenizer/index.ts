export type { LoadedTokenizer } from "./chat-tokenizer.ts";
export { type LoadTokenizerOptions, loadChatTokenizer } from "./load-chat-tokenizer.ts";
export { createReplyText, type ReplyText } from "./reply-text.ts";
export type { TemplateVariables } from "./template-variables.ts";
export { createTextStream, type TextStream } from "./text-stream.ts";
