/** The line of a conversation as its file has it, and what its words mean. What an older or newer version wrote may miss or add fields. */
export interface Said {
  role: string;
  content: string;
  name?: unknown;
  reasoning?: unknown;
  tool_calls?: unknown;
  tool_call_id?: unknown;
}

export interface TurnNote {
  reward?: number;
  sampled?: { finishReason?: string; constrained?: { tokens: number; forced: number; removed: number } };
  given?: true;
}

export interface RecordData {
  messages: Said[];
  turns?: Record<number, TurnNote>;
  system?: string;
  tools?: unknown[];
  reward?: { score?: number; breakdown?: Record<string, number>; turns?: Record<number, number>; metadata?: unknown };
  failure?: { kind?: string; during?: string; message?: string };
  versions?: string[];
  temperature?: number;
  stub?: true;
  metadata?: unknown;
}

const endings: Readonly<Record<string, string>> = {
  done: "The environment said that it was done.",
  "max-turns": "It had as many replies as it may have.",
  "max-tokens": "The last reply was cut at its token limit.",
  "context-full": "The context was full: there was no room for another reply.",
  failed: "The environment failed.",
};

export const endedWords = (ended: string) => endings[ended] ?? ended;

const leftOuts: Readonly<Record<string, string>> = {
  lost: "it was lost",
  dropped: "too few of its group came through",
  refused: "the algorithm did not want its group, as when all its members have the same reward",
};

export const leftOutWords = (leftOut: string) => leftOuts[leftOut] ?? leftOut;

const starts: Readonly<Record<string, string>> = {
  "first-prompt": "the first prompt",
  "messages-changed": "an earlier message is gone or says something else, as when a context window is cut",
  "reply-edited": "the reply is not what was sampled, as when a hook redacted it",
  "stop-text": "the reply before ended at a stop text, whose tokens the old chain holds and the message does not",
  "template-rewrote": "the chat template prints earlier messages otherwise than before",
  "tools-changed": "the tools are not those of before",
  "variables-changed": "the variables of the chat template are not those of before",
};

export const startWords = (started: string | null) =>
  started === null ? "the first prompt" : (starts[started] ?? started);

const kinds: Readonly<Record<string, string>> = {
  threw: "threw",
  timeout: "gave no answer in time",
  "not-finite": "gave a number that is not finite",
};
const places: Readonly<Record<string, string>> = {
  fresh: "The environment, while it was made,",
  reset: "The environment, at its start,",
  step: "The environment, at a reply,",
  user: "The simulated user",
  check: "The environment's check",
  harness: "The harness",
  hook: "A hook of the agent",
  reward: "The reward",
};

export function failureWords({ kind = "", during = "", message = "" }: NonNullable<RecordData["failure"]>): string {
  return `${places[during] ?? during} ${kinds[kind] ?? kind}: ${message}`;
}

const roles = new Set(["system", "developer", "user", "assistant", "tool"]);

/** For the name of a class: a file may hold any role. */
export const knownRole = (role: string) => (roles.has(role) ? role : "other");

/** Calls as OpenAI writes them; what looks otherwise is shown as it is. */
export function callsOf({ tool_calls }: Said): { name: string; id: string; given: unknown }[] {
  if (!Array.isArray(tool_calls)) return [];
  return tool_calls.map((call: { id?: unknown; function?: { name?: unknown; arguments?: unknown } } | null) => {
    const { name, arguments: given } = call?.function ?? {};
    if (typeof name !== "string") return { name: "?", id: "", given: call };
    return {
      name,
      id: typeof call?.id === "string" ? call.id : "",
      given: typeof given === "string" ? parsed(given) : given,
    };
  });
}

/** JSON as the thing it says, anything else as it is. */
export function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
