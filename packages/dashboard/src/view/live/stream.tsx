/** The conversations themselves: newest first, or under their groups. */
import { useMemo, useRef } from "preact/hooks";
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { useKeys } from "../../data/keys.ts";
import { place, setQuery } from "../../data/url.ts";
import { VirtualList, type VirtualListHandle } from "../parts/virtual-list.tsx";
import { Conversation } from "./conversation.tsx";
import { nameOf } from "./gather.ts";
import { GroupLine } from "./group-line.tsx";
import { groupsOf, type LiveGroup, newestFirst } from "./groups.ts";

type Item = { group: LiveGroup } | { conversation: LiveConversation };

interface Props {
  conversations: readonly LiveConversation[];
  grouped: boolean;
  /** Conversations of more than one run stand together, and say of which. */
  several: boolean;
  /** Nothing came yet at all. */
  waiting: boolean;
}

export function Stream({ conversations, grouped, several, waiting }: Props) {
  const list = useRef<VirtualListHandle>(null);
  const items = useMemo((): Item[] => {
    if (!grouped) return newestFirst(conversations).map((conversation) => ({ conversation }));
    return groupsOf(conversations).flatMap((group): Item[] => [
      { group },
      ...group.members.map((conversation) => ({ conversation })),
    ]);
  }, [conversations, grouped]);
  const open = place.value.query.open;

  const move = (by: 1 | -1) => {
    const at = items.findIndex((item) => document.activeElement?.id === `live-${keyOf(item)}`);
    let next = at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by;
    while (items[next] && "group" in items[next]!) next += by;
    const item = items[next];
    if (!item) return;
    list.current?.scrollTo(next);
    requestAnimationFrame(() => document.getElementById(`live-${keyOf(item)}`)?.focus());
  };
  useKeys([
    { key: "j", does: "Next conversation", run: () => move(1) },
    { key: "k", does: "Previous conversation", run: () => move(-1) },
    { key: "Escape", does: "Close the conversation", run: () => setQuery({ open: undefined }) },
  ]);

  if (items.length === 0) {
    return (
      <p class="faint live-none">
        {waiting ? "No conversation has ended yet. It appears here the moment one does." : "None of them is like that."}
      </p>
    );
  }
  return (
    <VirtualList
      scroll="page"
      handle={list}
      class="live-stream"
      label="Conversations"
      count={items.length}
      estimate={(i) => ("group" in items[i]! ? 44 : 62)}
      keyOf={(i) => keyOf(items[i]!)}
      render={(i) => {
        const item = items[i]!;
        if ("group" in item) return <GroupLine group={item.group} several={several} />;
        const name = nameOf(item.conversation);
        return (
          <Conversation
            conversation={item.conversation}
            id={`live-${name}`}
            several={several}
            inGroup={grouped}
            open={open === name}
            toggle={() => setQuery({ open: open === name ? undefined : name })}
          />
        );
      }}
    />
  );
}

const keyOf = (item: Item) => ("group" in item ? `group ${item.group.name}` : nameOf(item.conversation));
