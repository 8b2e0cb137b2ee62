/** What was said in a conversation, to be read and not studied: the trajectory's own page shows its tokens. */
import { LongText } from "../parts/long-text.tsx";
import { plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { callsOf, knownRole, type Said } from "../trajectory/record.ts";
import "./messages.css";

/** `cut`: characters that live.jsonl leaves out. */
type SaidMessage = Said & { cut?: unknown };

export function Messages({ messages }: { messages: readonly SaidMessage[] }) {
  if (messages.length === 0) return <p class="faint">Nothing was said.</p>;
  return (
    <ol class="said">
      {messages.map((message, i) => (
        <li key={i} class={`said-one said-${knownRole(message.role)}`}>
          <span class="said-role">
            <Text value={message.role} />
          </span>
          <div class="said-text">
            {typeof message.reasoning === "string" && message.reasoning && (
              <details>
                <summary>Thought before answering</summary>
                <LongText value={message.reasoning} />
              </details>
            )}
            {message.content && <LongText value={message.content} />}
            {typeof message.cut === "number" && (
              <span class="faint"> … {plural(message.cut, "more character")} left out while it is live</span>
            )}
            {callsOf(message).map(({ name, given }, k) => (
              <div key={k} class="said-call">
                <LongText value={`${name}(${typeof given === "string" ? given : JSON.stringify(given)})`} />
              </div>
            ))}
          </div>
        </li>
      ))}
    </ol>
  );
}
