/** One message of a conversation: who said it, what it was rewarded with, its tokens where there are some. */
import type { ComponentChildren } from "preact";
import { type Range, reasoningEnd } from "../../token/reply-ranges.ts";
import type { Selection } from "../../token/selection.ts";
import { TokenLines } from "../../token/token-lines.tsx";
import { LongText } from "../parts/long-text.tsx";
import { number, plural, signed } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { JsonTree } from "./json-tree.tsx";
import type { Look } from "./look.ts";
import { callsOf, knownRole, parsed, type Said, type TurnNote } from "./record.ts";

export const panelId = "token-panel";

interface Props {
  message: Said;
  index: number;
  note: TurnNote | undefined;
  /** What the reward gave for this turn. */
  reward: number | undefined;
  /** Where its tokens are; undefined where it has none or they are not to be shown. */
  tokens: { look: Look; range: Range; selection: Selection } | undefined;
}

export function Message({ message, index, note, reward, tokens }: Props) {
  const { role, content } = message;
  return (
    <Card who={role} head={<Head message={message} index={index} note={note} reward={reward} tokens={tokens?.range} />}>
      {tokens ? (
        <Sampled message={message} index={index} {...tokens} />
      ) : (
        <>
          <Reasoning message={message} />
          {role === "tool" ? <JsonTree value={parsed(content)} /> : content !== "" && <LongText value={content} />}
          {content === "" && callsOf(message).length === 0 && <p class="faint">(nothing)</p>}
        </>
      )}
      <Calls message={message} folded={tokens !== undefined} />
    </Card>
  );
}

export function Card({ who, head, children }: { who: string; head: ComponentChildren; children: ComponentChildren }) {
  return (
    <li class={`message message-${knownRole(who)}`}>
      <div class="message-head">{head}</div>
      <div class="message-body">{children}</div>
    </li>
  );
}

function Head({ message, index, note, reward, tokens }: Omit<Props, "tokens"> & { tokens: Range | undefined }) {
  const { role, name } = message;
  const { sampled, given } = note ?? {};
  const own = reward ?? note?.reward;
  return (
    <>
      <strong class="message-role">
        <Text value={role} />
      </strong>
      {typeof name === "string" && (
        <code>
          <Text value={name} />
        </code>
      )}
      <span class="faint">turn {index}</span>
      {tokens && <span class="faint">{plural(tokens[1] - tokens[0], "token")}</span>}
      {own !== undefined && (
        <span class={own < 0 ? "chip chip-below" : "chip chip-above"} title="What this turn was rewarded with">
          reward {signed(own)}
        </span>
      )}
      {given && <span class="chip">given by the scenario: not learnt from</span>}
      {sampled?.finishReason === "length" && <span class="chip chip-warn">cut at its token limit</span>}
      {sampled?.constrained && (
        <span class="chip" title="Calls were held to their schemas while this was sampled">
          {number(sampled.constrained.tokens)} tokens constrained, {number(sampled.constrained.forced)} forced
        </span>
      )}
    </>
  );
}

function Sampled({ message, index, look, range, selection }: Props["tokens"] & { message: Said; index: number }) {
  const { reasoning, content } = message;
  const split = reasoningEnd(range, (token) => look.spelling.raw(token), {
    reasoning: typeof reasoning === "string" ? reasoning : undefined,
    content,
  });
  const [from, to] = range;
  const lines = (own: Range, what: string) => (
    <TokenLines
      look={look}
      range={own}
      selection={selection}
      panel={panelId}
      label={`${what} of turn ${index}, token by token`}
    />
  );
  return (
    <>
      {split > from && (
        <details class="reasoning">
          <summary>Reasoning, {plural(split - from, "token")}</summary>
          {lines([from, split], "Reasoning")}
        </details>
      )}
      {split < to && lines([split, to], "Reply")}
    </>
  );
}

function Reasoning({ message: { reasoning } }: { message: Said }) {
  if (typeof reasoning !== "string" || reasoning === "") return null;
  return (
    <details class="reasoning">
      <summary>Reasoning</summary>
      <LongText value={reasoning} />
    </details>
  );
}

function Calls({ message, folded }: { message: Said; folded: boolean }) {
  const calls = callsOf(message);
  if (calls.length === 0) return null;
  return (
    <>
      {calls.map(({ name, id, given }, i) => (
        <details key={i} class="call" open={!folded}>
          <summary>
            calls{" "}
            <code>
              <Text value={name} />
            </code>{" "}
            <span class="faint">
              <Text value={id} />
            </span>
          </summary>
          {typeof given === "string" && <p class="wrong">Its arguments are no JSON:</p>}
          <JsonTree value={given} />
        </details>
      ))}
    </>
  );
}
