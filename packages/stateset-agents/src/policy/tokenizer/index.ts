export type { TemplateVariables } from "../../conversation/template-variables.ts";
export type { LoadedTokenizer } from "./chat-tokenizer.ts";
export { type LoadTokenizerOptions, loadChatTokenizer } from "./load-chat-tokenizer.ts";
export type { FileContents, JsonObject, ModelFiles } from "./model-json.ts";
export { createReplyText, type ReplyText } from "./reply-text.ts";
export { createTextStream, type TextStream } from "./text-stream.ts";
export type { TokenBytes } from "./token-bytes.ts";
