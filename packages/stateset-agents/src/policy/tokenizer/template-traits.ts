/** What a template makes of things that not all templates know, found out by rendering them. */
import type { Template } from "@huggingface/jinja";
import { foreignValue } from "./jinja/objects.ts";
import { environmentWith, run } from "./template-environment.ts";
import { marks } from "./traced-text.ts";

/** Undefined where the template fails or refuses. */
function attempt(template: Template, messages: readonly object[], tools: readonly object[] | null): string | undefined {
  const environment = environmentWith({ bos_token: "", eos_token: "" }, new Date(0), (reason) => {
    throw new Error(reason);
  });
  try {
    const told = { messages: foreignValue(messages, marks.said), tools: foreignValue(tools, marks.given) };
    return run(template, environment, told).text;
  } catch {
    return undefined;
  }
}

/** Arguments that are put through `tojson` come out as a quoted string. */
export function printsTextArguments(template: Template, source: string): boolean {
  if (/arguments(?:['"]\])?\s+is\s+mapping|arguments\.items|arguments\s*\|\s*items/.test(source)) return false;
  const args = '{"probe":1}';
  const call = { id: "callprobe", type: "function", function: { name: "f", arguments: args } };
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: "", tool_calls: [call] },
  ];
  // Where it prints no such conversation, it will not have to.
  return attempt(template, messages, null)?.includes(args) ?? false;
}

const tool = {
  type: "function",
  function: { name: "f", description: "d", parameters: { type: "object", properties: { p: { type: "string" } } } },
};

/**
 * Whether to give a template the role "developer" as it is; those that do not know it are given "system". To know it, a template
 * must print it otherwise than a role that nobody has, and nowhere do less for it than for a system message: there are some that
 * speak of developers but drop or refuse such a message, at the beginning or later, with tools or without.
 */
export function knowsDeveloper(template: Template, source: string): boolean {
  if (!source.includes("developer")) return false;
  const [user, assistant, system] = ["user", "assistant", "system"].map((role) => ({ role, content: "a" }));
  const places = [
    (asked: object) => [asked, user!],
    (asked: object) => [asked, user!, assistant!, user!],
    (asked: object) => [system!, asked, user!],
    (asked: object) => [user!, asked, user!],
    (asked: object) => [user!, assistant!, asked, user!],
  ];
  const content = "probe";
  const told = places.flatMap((place) => [null, [tool]].map((tools) => ({ place, tools })));
  const seen = told.map(({ place, tools }) => {
    const print = (role: string) => attempt(template, place({ role, content }), tools)?.replaceAll(role, "");
    return { developer: print("developer"), system: print("system"), nobody: print("nobodysrole") };
  });
  return (
    seen.some(({ developer, nobody }) => developer !== undefined && developer !== nobody) &&
    seen.every(({ developer, system }) => !system?.includes(content) || developer?.includes(content))
  );
}
