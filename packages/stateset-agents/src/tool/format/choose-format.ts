/** Which format a model writes its calls in: found out by having its chat template print one. */
import type { Message } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { ChatTokenizer } from "../../policy/policy.ts";
import type { CallGrammar } from "../constrain/call-grammar.ts";
import type { CallFormat, CallFormatName, FindCall, HeldFormat } from "./call-format.ts";
import { hermes } from "./hermes.ts";
import { jsonFence } from "./json-fence.ts";
import { llama3 } from "./llama3.ts";
import { mistral } from "./mistral.ts";
import { pythonic } from "./pythonic.ts";
import { type CallForm, callForms, type TellOptions, tellCalls } from "./tell-calls.ts";

const formats: Readonly<Record<CallFormatName, HeldFormat>> = {
  hermes,
  llama3,
  mistral,
  json: jsonFence,
  pythonic,
};

export const callFormats: Readonly<Record<CallFormatName, CallFormat>> = formats;

/** What keeps the calls of a format valid while they are sampled. */
export function callGrammar({ name }: Pick<CallFormat, "name">): CallGrammar {
  return formats[name].grammar;
}

/** What finds the calls of a format in a reply that grows; undefined: they are known when it is whole. */
export function findCalls({ name }: Pick<CallFormat, "name">): FindCall | undefined {
  return formats[name].findCalls?.();
}

/** What a chat template does about tools. */
export interface TemplateTools {
  format: CallFormat;
  /** False: it has no place for tools, and the model must be told of them in the system text. */
  shown: boolean;
  /** How calls and results must be told, so that it prints them. */
  tell: Omit<TellOptions, "format">;
}

const name = "probe_tool";
const tool: ToolDefinition = {
  type: "function",
  function: { name, description: "d", parameters: { type: "object", properties: { q: { type: "string" } } } },
};
const user: Message = { role: "user", content: "a" };
const idOf = (number: number) => `callprob${number}`;
const callsOf = (count: number): Message => ({
  role: "assistant",
  content: "",
  tool_calls: Array.from({ length: count }, (_, i) => ({
    ...{ id: idOf(i), type: "function" },
    function: { name, arguments: `{"q": "argument_${i}"}` },
  })),
});
const resultsOf = (count: number) =>
  Array.from(
    { length: count },
    (_, i): Message => ({ role: "tool", name, tool_call_id: idOf(i), content: `result_${i}` }),
  );
const call = callsOf(1);
const [result] = resultsOf(1) as [Message];
const goesOn: Message[] = [{ role: "assistant", content: "d" }, user];

export function toolsOfTemplate(tokenizer: Pick<ChatTokenizer, "render">): TemplateTools {
  const print = (messages: readonly Message[], tools?: readonly ToolDefinition[]) => {
    try {
      return tokenizer.render(messages, tools ? { tools } : {});
    } catch {
      return "";
    }
  };
  const told = print([user], [tool]);
  // Templates may refuse a call without its answer, or one without tools.
  const printed = [
    print([user, call], [tool]),
    print([user, call, result], [tool]),
    print([user, call]),
    print([user, call, result, ...goesOn], [tool]),
  ];
  const texts = printed.map((text) => (text.startsWith(told) ? text.slice(told.length) : text));
  const format = formatIn(texts, told);
  const shown = told.includes(name);
  const withTools = shown ? [tool] : undefined;
  /** The plainest form in which all of a reply's calls and results are printed, also once the conversation has gone on. */
  const formFor = (count: number): CallForm => {
    const asked = [user, callsOf(count), ...resultsOf(count)];
    const isPrinted = (form: CallForm) => {
      const own = { format, one: form, several: form, unanswered: "template" } as const;
      const tell = (messages: readonly Message[]) => print(tellCalls(messages, own), withTools);
      const [text, later] = [tell(asked), tell([...asked, ...goesOn])];
      return (
        later !== "" &&
        Array.from({ length: count }, (_, i) => [`argument_${i}`, `result_${i}`])
          .flat()
          .every((part) => text.includes(part))
      );
    };
    return callForms.find(isPrinted) ?? "user";
  };
  const unanswered = print([user, call, user], withTools).includes("argument_0") ? "template" : "words";
  return { format, shown, tell: { one: formFor(1), several: formFor(2), unanswered } };
}

/** By what is printed around the call; where that tells nothing, by what the model is told to write. */
function formatIn(calls: readonly string[], told: string): CallFormat {
  const has = (pattern: RegExp, texts = calls.filter((text) => text.includes(name))) =>
    texts.some((text) => pattern.test(text));
  if (has(/<tool_call>/)) return hermes;
  if (has(/\[TOOL_CALLS\]/)) return mistral;
  if (has(/<\|python_tag\|>|\{\s*"name"\s*:\s*"probe_tool"\s*,\s*"parameters"\s*:/)) return llama3;
  if (has(/\bprobe_tool\(\s*q\s*=/)) return pythonic;
  if (has(/<tool_call>/, [told])) return hermes;
  if (has(/\{\s*"name"\s*:\s*[^{}"]*,\s*"parameters"\s*:/, [told])) return llama3;
  return jsonFence;
}
