/** A conversation: its messages, or its chains token by token. */
import { useMemo } from "preact/hooks";
import type { TrajectoryData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { replyRanges } from "../../token/reply-ranges.ts";
import type { Selection } from "../../token/selection.ts";
import { TokenLines } from "../../token/token-lines.tsx";
import type { Tokens } from "../../token/tokens.ts";
import { LongText } from "../parts/long-text.tsx";
import { plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { JsonTree } from "./json-tree.tsx";
import type { Look } from "./look.ts";
import { Card, Message, panelId } from "./message.tsx";
import { type RecordData, startWords } from "./record.ts";

export function Messages({
  data,
  look,
  selection,
}: {
  data: TrajectoryData;
  look: Look | undefined;
  selection: Selection;
}) {
  const { system, tools, messages, turns, reward } = data.record as unknown as RecordData;
  const ranges = useMemo(() => look && replyRanges(look.tokens, messages), [look?.tokens, messages]);
  const restarts = useMemo(() => (look ? restartsOf(look.tokens) : new Map<number, number>()), [look?.tokens]);
  return (
    <ol class="messages" aria-label="What was said">
      {system !== undefined && (
        <Card who="system" head={<AgentsOwn />}>
          <LongText value={system} />
        </Card>
      )}
      {(tools?.length ?? 0) > 0 && (
        <Card who="system" head={<strong class="message-role">tools</strong>}>
          <details>
            <summary>{plural(tools!.length, "tool")} it could call</summary>
            <JsonTree value={tools} />
          </details>
        </Card>
      )}
      {messages.map((message, i) => {
        const range = ranges?.get(i);
        const restarted = restarts.get(i);
        return (
          <>
            {restarted !== undefined && look && <Restart key={`restart-${i}`} chain={restarted} tokens={look.tokens} />}
            <Message
              key={i}
              index={i}
              message={message}
              note={turns?.[i]}
              reward={reward?.turns?.[i]}
              tokens={look && range && !look.text ? { look, range, selection } : undefined}
            />
          </>
        );
      })}
    </ol>
  );
}

function AgentsOwn() {
  return (
    <>
      <strong class="message-role">system</strong>
      <span class="faint">the agent's own prompt</span>
    </>
  );
}

function Restart({ chain, tokens }: { chain: number; tokens: Tokens }) {
  return (
    <li class="restart">
      A new chain of tokens begins with this reply ({chain + 1} of {tokens.chains.length}):{" "}
      <Text value={startWords(tokens.chains[chain]!.started)} />.
    </li>
  );
}

/** The first reply of each chain but the first one → the chain. */
function restartsOf({ chains, turn }: Tokens): Map<number, number> {
  const found = new Map<number, number>();
  chains.forEach(({ from, length }, chain) => {
    const first = turn.subarray(from, from + length).find((own) => own >= 0);
    if (chain > 0 && first !== undefined) found.set(first, chain);
  });
  return found;
}

export function Chains({ look, selection }: { look: Look; selection: Selection }) {
  const { chains } = look.tokens;
  return (
    <ol class="messages" aria-label="All tokens">
      {chains.map(({ from, length, started, versions }, i) => (
        <Card
          key={from}
          who="chain"
          head={
            <>
              <strong class="message-role">
                chain {i + 1} of {chains.length}
              </strong>
              <span class="faint">{plural(length, "token")}</span>
              <span class="faint">
                began because of: <Text value={startWords(started)} />
              </span>
              {Object.keys(versions).length > 0 && (
                <span
                  class="faint"
                  title={Object.entries(versions)
                    .map(([turn, version]) => `turn ${turn}: ${version}`)
                    .join("\n")}
                >
                  {plural(new Set(Object.values(versions)).size, "version")} of the weights
                </span>
              )}
            </>
          }
        >
          <TokenLines
            look={look}
            range={[from, from + length]}
            selection={selection}
            panel={panelId}
            label={`Chain ${i + 1}, token by token`}
          />
        </Card>
      ))}
    </ol>
  );
}
