import { Template } from "@huggingface/jinja";
import { checkTemplateVariables } from "../../conversation/template-variables.ts";
import { messageOf, StatesetError } from "../../error.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import { checkLibrary } from "./jinja/interpreter.ts";
import { ArrayValue, BooleanValue, NullValue, type Value } from "./jinja/library.ts";
import { lookedFor } from "./jinja/looked-for.ts";
import { foreignValue } from "./jinja/objects.ts";
import { isObject, type JsonObject, type ModelFiles, readJsonObject, readText, whereOf } from "./model-json.ts";
import { environmentWith, run } from "./template-environment.ts";
import { messageForTemplate } from "./template-message.ts";
import { knowsDeveloper, printsTextArguments } from "./template-traits.ts";
import { marks } from "./traced-text.ts";

/** Named templates; transformers takes "tool_use" when there are tools and "default" otherwise. */
export type ChatTemplates = ReadonlyMap<string, string>;

/** From wherever a model keeps them: chat_template.jinja, then tokenizer_config.json, then chat_template.json. */
export async function readChatTemplates(source: ModelFiles, config: JsonObject): Promise<ChatTemplates> {
  const file = await readText(source, "chat_template.jinja");
  if (file !== undefined) return new Map([["default", file]]);
  const value = config.chat_template ?? (await readJsonObject(source, "chat_template.json"))?.chat_template;
  if (value === undefined || value === null) return new Map();
  if (typeof value === "string") return new Map([["default", value]]);
  const named = Array.isArray(value) ? value.filter(isNamed) : [];
  if (named.length === 0 || (Array.isArray(value) && named.length !== value.length)) {
    throw new StatesetError(
      "TOKENIZER_INVALID",
      `The chat_template in ${whereOf(source)} is neither text nor a list of named texts.`,
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
  const environment = environmentWith(tokens, today, (reason) => {
    // Whoever sent the messages reads it, perhaps from elsewhere: where the model lies is not for him.
    throw new StatesetError("INVALID_MESSAGE", `The chat template refuses these messages: ${reason}`);
  });
  const none = new NullValue(null);
  let measures = false;
  return {
    get measures() {
      return measures;
    },
    lookedFor: [...new Set([...compiled.values()].flatMap(({ template }) => lookedFor(template.parsed)))],
    print(messages, { tools, templateVariables = {}, addGenerationPrompt = false }, reply) {
      checkTemplateVariables(templateVariables);
      const listed = tools && tools.length > 0 ? tools : undefined;
      const choice = (listed && compiled.get("tool_use")) ?? compiled.get("default") ?? [...compiled.values()][0]!;
      const told = Object.entries(templateVariables).map(([name, value]): [string, Value] => [
        name,
        foreignValue(value, marks.given),
      ]);
      const said = messages.map((message, i) =>
        messageForTemplate(message, choice, i === reply ? marks.reply : marks.said),
      );
      try {
        const { measured, ...text } = run(choice.template, environment, {
          documents: none,
          ...Object.fromEntries(told),
          messages: new ArrayValue(said),
          tools: listed ? foreignValue(listed, marks.given) : none,
          add_generation_prompt: new BooleanValue(addGenerationPrompt),
        });
        measures ||= measured;
        return text;
      } catch (cause) {
        if (StatesetError.isInstance(cause)) throw cause;
        const reason = messageOf(cause);
        throw new StatesetError("TOKENIZER_INVALID", `The chat template in ${where} failed: ${reason}.`, { cause });
      }
    },
  };
}

interface Compiled {
  template: Template;
  /** Whether it prints tool arguments that are JSON text as they are, or wants them parsed. */
  textArguments: boolean;
  /** Whether it knows the role; templates older than it are given the role "system" instead. */
  developerRole: boolean;
}

function compile(source: string, name: string, where: string): Compiled {
  checkLibrary();
  try {
    // As Jinja reads it, whatever wrote the file.
    const template = new Template(source.replace(/\r\n?/g, "\n"));
    const textArguments = printsTextArguments(template, source);
    return { template, textArguments, developerRole: knowsDeveloper(template, source) };
  } catch (cause) {
    const message = `The chat template "${name}" in ${where} is not valid Jinja: ${messageOf(cause)}.`;
    throw new StatesetError("TOKENIZER_INVALID", message, { cause });
  }
}
