/** The replies of a group from what they share: where they part, and what each way was worth. */
import { useMemo } from "preact/hooks";
import type { GroupData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { link } from "../../data/url.ts";
import { number, plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { meanReward } from "./members.ts";

type Tree = NonNullable<GroupData["tree"]>;

interface Props {
  group: GroupData;
  tree: Tree;
  colour: (reward: number | null) => string;
}

export function ReplyTree({ group, tree, colour }: Props) {
  const children = useMemo(() => childrenOf(group, tree), [group, tree]);
  return (
    <ul class="reply-tree">
      {(children.get(-1) ?? []).map((node) => (
        <Node key={node} node={node} group={group} tree={tree} childrenOf={children} colour={colour} />
      ))}
    </ul>
  );
}

/** Those worth most first. */
function childrenOf({ members }: GroupData, tree: Tree): Map<number, number[]> {
  const children = new Map<number, number[]>();
  tree.forEach(({ parent }, i) => {
    children.set(parent, [...(children.get(parent) ?? []), i]);
  });
  const worth = (node: number) => meanReward(members, tree[node]!.members) ?? Number.NEGATIVE_INFINITY;
  for (const list of children.values()) list.sort((a, b) => worth(b) - worth(a) || a - b);
  return children;
}

const shownAtFirst = 280;

function Node({ node, childrenOf, ...props }: Props & { node: number; childrenOf: Map<number, number[]> }) {
  const { group, tree, colour } = props;
  const { text, tokens, members } = tree[node]!;
  const below = childrenOf.get(node) ?? [];
  const mean = meanReward(group.members, members);
  const [only] = members.length === 1 ? [group.members[members[0]!]] : [];
  const long = text.length > shownAtFirst;
  return (
    <li>
      <div class="tree-node">
        <div class="tree-head">
          {mean !== null && (
            <span
              class={`reward ${colour(mean)}`}
              title={only ? "Its reward" : "The mean reward of those that go this way"}
            >
              {number(mean)}
            </span>
          )}
          {only ? (
            <a href={link(["trajectory", only.key])}>
              <Text value={only.id} />
            </a>
          ) : (
            <span>
              {members.length} of {group.members.length} members
            </span>
          )}
          <span class="faint">{plural(tokens, "token")}</span>
          {only?.leftOut && <span class="chip chip-warn">{only.leftOut}</span>}
        </div>
        {long ? (
          <details class="tree-text">
            <summary>
              <Text value={`${text.slice(0, shownAtFirst / 2)} … ${text.slice(-shownAtFirst / 2)}`} />
            </summary>
            <Text value={text} />
          </details>
        ) : (
          <div class="tree-text">
            <Text value={text} />
          </div>
        )}
      </div>
      {below.length > 0 && (
        <ul>
          {below.map((child) => (
            <Node key={child} node={child} childrenOf={childrenOf} {...props} />
          ))}
        </ul>
      )}
    </li>
  );
}
