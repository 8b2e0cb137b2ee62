/** What was said in a conversation, to be read and not studied: the trajectory's own page shows its tokens. */
import { useState } from "preact/hooks";
import { plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import "./messages.css";

export interface SaidMessage {
  role: string;
  content: string;
  [field: string]: unknown;
}

/** Of a message of a megabyte a beginning is shown until the rest is asked for. */
const shownAtFirst = 4000;

export function Messages({ messages }: { messages: readonly SaidMessage[] }) {
  if (messages.length === 0) return <p class="faint">Nothing was said.</p>;
  return (
    <ol class="said">
      {messages.map((message, i) => (
        <li key={i} class={`said-one said-${roleClass(message.role)}`}>
          <span class="said-role">
            <Text value={message.role} />
          </span>
          <div class="said-text">
            {typeof message.reasoning === "string" && message.reasoning && (
              <details>
                <summary>Thought before answering</summary>
                <Long text={message.reasoning} />
              </details>
            )}
            {message.content && <Long text={message.content} />}
            {typeof message.cut === "number" && (
              <span class="faint"> … {plural(message.cut, "more character")} left out while it is live</span>
            )}
            {callsOf(message).map(({ name, args }, k) => (
              <code key={k} class="said-call">
                <Long text={`${name}(${args})`} />
              </code>
            ))}
          </div>
        </li>
      ))}
    </ol>
  );
}

function Long({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > shownAtFirst;
  return (
    <>
      <Text value={cut ? text.slice(0, shownAtFirst) : text} />
      {cut && (
        <button type="button" class="button small" onClick={() => setAll(true)}>
          … {plural(text.length - shownAtFirst, "more character")}
        </button>
      )}
    </>
  );
}

const roles = new Set(["system", "developer", "user", "assistant", "tool"]);
const roleClass = (role: string) => (roles.has(role) ? role : "other");

/** Calls as OpenAI writes them; what looks otherwise is shown as it is. */
function callsOf({ tool_calls }: SaidMessage): { name: string; args: string }[] {
  if (!Array.isArray(tool_calls)) return [];
  return tool_calls.map((call: { function?: { name?: unknown; arguments?: unknown } } | null) => {
    const { name, arguments: args } = call?.function ?? {};
    if (typeof name !== "string") return { name: "?", args: JSON.stringify(call) ?? "" };
    return { name, args: typeof args === "string" ? args : (JSON.stringify(args) ?? "") };
  });
}
