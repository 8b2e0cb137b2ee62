/** One conversation in the list: a line, and what was said below it once it is opened. */
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { number } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { Messages } from "./messages.tsx";

interface Props {
  conversation: LiveConversation;
  id: string;
  several: boolean;
  /** Its group's head names scenario and step. */
  inGroup: boolean;
  open: boolean;
  toggle(): void;
}

export function Conversation({ conversation, id, several, inGroup, open, toggle }: Props) {
  const { run, step, scenario, at, ended, failure, reward, breakdown, messages } = conversation;
  const parts = Object.entries(breakdown);
  return (
    <article class={`live-one ${failure === null ? "" : "live-failed"} ${open ? "live-open" : ""}`}>
      <button type="button" id={id} class="live-line" aria-expanded={open} onClick={toggle}>
        <span class={`live-reward ${reward === null ? "faint" : ""}`}>
          {reward === null ? (failure === null ? "waiting" : "–") : number(reward, 3)}
        </span>
        <span class="live-what">
          {!inGroup && (
            <span class="live-where">
              {several && (
                <>
                  <Text value={run} />
                  {" · "}
                </>
              )}
              <Text value={scenario ?? "no scenario"} />
              <span class="faint"> step {step}</span>
            </span>
          )}
          <span class="live-snippet">
            {failure === null ? (
              <Text value={lastReply(messages)} />
            ) : (
              <span class="wrong">
                <Text value={firstLine(failure)} />
              </span>
            )}
          </span>
        </span>
        <time class="faint live-at" dateTime={isoTime(at)}>
          {clock(at)}
        </time>
      </button>
      {open && (
        <div class="live-body">
          <p class="faint">
            {ended !== null && (
              <>
                ended: <Text value={ended} />
              </>
            )}
            {parts.map(([name, value]) => (
              <span key={name} class="live-part">
                <Text value={name} /> {number(value, 3)}
              </span>
            ))}
          </p>
          {failure !== null && (
            <p class="wrong">
              <Text value={failure} />
            </p>
          )}
          <Messages messages={messages} />
        </div>
      )}
    </article>
  );
}

function lastReply(messages: LiveConversation["messages"]): string {
  return firstLine(messages.findLast(({ role, content }) => role === "assistant" && content)?.content ?? "");
}

const firstLine = (text: string) => text.slice(0, 300).replace(/\s+/g, " ");

const isTime = (at: number) => Math.abs(at) <= 8.64e15;

/** The hour rather than how long ago: that would have to be written anew all the time. */
function clock(at: number): string {
  return isTime(at) ? new Date(at).toLocaleTimeString([], { hour12: false }) : "–";
}

/** A clock that says nonsense gets no date. */
function isoTime(at: number): string | undefined {
  return isTime(at) ? new Date(at).toISOString() : undefined;
}
