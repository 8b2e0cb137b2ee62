import { Environment, Template } from "@huggingface/jinja";
import { checkTemplateVariables } from "../../conversation/template-variables.ts";
import { messageOf, StatesetError } from "../../error.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import { interpret } from "./marked-interpreter.ts";
import { unmark } from "./marks.ts";
import { isObject, type JsonObject, readJsonObject, readText } from "./model-json.ts";
import { messageForTemplate } from "./template-message.ts";
import { rewriteStrings, stringFunctions } from "./template-strings.ts";

/** Named templates; transformers takes "tool_use" when there are tools and "default" otherwise. */
export type ChatTemplates = ReadonlyMap<string, string>;

/** From wherever a model keeps them: chat_template.jinja, then tokenizer_config.json, then chat_template.json. */
export async function readChatTemplates(dir: string, config: JsonObject): Promise<ChatTemplates> {
  const file = await readText(dir, "chat_template.jinja");
  if (file !== undefined) return new Map([["default", file]]);
  const value = config.chat_template ?? (await readJsonObject(dir, "chat_template.json"))?.chat_template;
  if (value === undefined || value === null) return new Map();
  if (typeof value === "string") return new Map([["default", value]]);
  const named = Array.isArray(value) ? value.filter(isNamed) : [];
  if (named.length === 0 || (Array.isArray(value) && named.length !== value.length)) {
    throw new StatesetError(
      "TOKENIZER_INVALID",
      `The chat_template in ${dir} is neither text nor a list of named texts.`,
    );
  }
  return new Map(named.map(({ name, template }) => [name, template]));
}

function isNamed(value: unknown): value is { name: string; template: string } {
  return isObject(value) && typeof value.name === "string" && typeof value.template === "string";
}

export interface TemplateOptions {
  /** bos_token, eos_token, …: what templates may print. */
  tokens: Readonly<Record<string, string>>;
  /** What templates that print a date are told. */
  today: Date;
  /** Names the folder in errors. */
  where: string;
}

/** A renderer from Jinja chat templates, called with the variables `transformers` passes. */
export function createTemplateRenderer(
  templates: ChatTemplates,
  { tokens, today, where }: TemplateOptions,
): ChatRenderer {
  const compiled = new Map([...templates].map(([name, source]) => [name, compile(source, name, where)]));
  const common = environmentWith({
    ...tokens,
    strftime_now: (format: string) => formatDate(today, format),
    raise_exception: (reason: unknown) => {
      const message = `The chat template in ${where} refuses these messages: ${unmark(String(reason))}`;
      throw new StatesetError("INVALID_MESSAGE", message);
    },
  });
  return (messages, { tools, templateVariables = {}, addGenerationPrompt = false }, foreign) => {
    checkTemplateVariables(templateVariables);
    const listed = tools && tools.length > 0 ? tools : null;
    const choice = (listed && compiled.get("tool_use")) ?? compiled.get("default") ?? [...compiled.values()][0]!;
    try {
      return run(choice.template, common, {
        documents: null,
        ...(foreign.value(templateVariables) as JsonObject),
        messages: messages.map((message) => messageForTemplate(message, choice, foreign)),
        tools: listed && foreign.tools(listed),
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (cause) {
      if (StatesetError.isInstance(cause)) throw cause;
      const reason = unmark(messageOf(cause));
      throw new StatesetError("TOKENIZER_INVALID", `The chat template in ${where} failed: ${reason}.`, { cause });
    }
  };
}

/** What every run of a template shares. Made once, because the library takes its time over each name. */
function environmentWith(more: Readonly<Record<string, unknown>>): Environment {
  const constants = { true: true, True: true, false: false, False: false, none: null, None: null };
  const environment = new Environment();
  for (const [name, value] of Object.entries({ ...constants, ...stringFunctions, range, ...more }))
    environment.set(name, value);
  return environment;
}

/** Template.render() without its own raise_exception and its clock. */
function run(template: Template, common: Environment, variables: Readonly<Record<string, unknown>>): string {
  const environment = new Environment(common);
  for (const [name, value] of Object.entries(variables)) environment.set(name, value);
  return interpret(template.parsed, environment);
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const length = Math.max(0, Math.ceil((to - from) / step));
  // Templates count messages; a longer range is a mistake or an attack.
  if (!(length <= 1_000_000)) throw new RangeError(`range(${from}, ${to}, ${step}) is too long`);
  return Array.from({ length }, (_, i) => from + i * step);
}

interface Compiled {
  template: Template;
  /** Whether it prints tool arguments that are JSON text as they are, or wants them parsed. */
  textArguments: boolean;
  /** Whether it knows the role; templates older than it are given the role "system" instead. */
  developerRole: boolean;
}

function compile(source: string, name: string, where: string): Compiled {
  try {
    const template = new Template(source);
    rewriteStrings(template.parsed);
    const textArguments = printsTextArguments(template, source);
    return { template, textArguments, developerRole: knowsDeveloper(template, source) };
  } catch (cause) {
    const message = `The chat template "${name}" in ${where} is not valid Jinja: ${messageOf(cause)}.`;
    throw new StatesetError("TOKENIZER_INVALID", message, { cause });
  }
}

/** Found out by rendering one: a template that only speaks of developers prints the same for any other role it does not know. */
function knowsDeveloper(template: Template, source: string): boolean {
  if (!source.includes("developer")) return false;
  const common = environmentWith({ bos_token: "", eos_token: "", strftime_now: () => "" });
  const print = (role: string) => {
    try {
      const messages = [
        { role, content: "probe" },
        { role: "user", content: "a" },
      ];
      return run(template, common, { messages, tools: null }).replaceAll(role, "");
    } catch {
      return undefined;
    }
  };
  const known = print("developer");
  return known !== undefined && known !== print("nobodysrole");
}

/** Found out by rendering a call: arguments that are put through `tojson` come out as a quoted string. */
function printsTextArguments(template: Template, source: string): boolean {
  if (/arguments\s+is\s+mapping|arguments\.items|arguments\s*\|\s*items/.test(source)) return false;
  const args = '{"probe":1}';
  const call = { id: "callprobe", type: "function", function: { name: "f", arguments: args } };
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: "", tool_calls: [call] },
  ];
  try {
    const common = environmentWith({ bos_token: "", eos_token: "", strftime_now: () => "" });
    return run(template, common, { messages, tools: null }).includes(args);
  } catch {
    // It prints no such conversation; nor will it have to.
    return false;
  }
}

const months = "January February March April May June July August September October November December".split(" ");

/** The parts of strftime that templates use, in UTC and English whatever the machine is set to. */
function formatDate(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const parts: Record<string, string> = {
    Y: String(date.getUTCFullYear()),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    B: months[date.getUTCMonth()]!,
    b: months[date.getUTCMonth()]!.slice(0, 3),
    H: two(date.getUTCHours()),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    "%": "%",
  };
  return format.replace(/%([YmdBbHMS%])/g, (_, part: string) => parts[part]!);
}
