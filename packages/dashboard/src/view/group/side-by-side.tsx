/** Two members beside each other, with the words that differ marked. */
import { useMemo } from "preact/hooks";
import { link, setQuery } from "../../data/url.ts";
import { className, middle } from "../../token/colours.ts";
import "../../token/install-colours.ts";
import { number, plural } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { plain } from "../parts/visible.ts";
import { callsOf, type Said } from "../trajectory/record.ts";
import type { Member } from "./members.ts";
import { joinMarks, type Stretch, type WordDiff, wordDiff } from "./word-diff.ts";

/** Characters of one message that are compared. */
const most = 40_000;
const marks = { left: className("signed", middle + 4), right: className("signed", middle - 4) };

interface Props {
  members: readonly Member[];
  left: number;
  right: number;
}

export function SideBySide({ members, left, right }: Props) {
  const [a, b] = [members[left]!, members[right]!];
  const rows = useMemo(() => rowsOf(a, b), [a, b]);
  const alike = rows.findIndex(({ diff }) => diff.different > 0);
  const shared = alike < 0 ? rows.length : alike;
  return (
    <section class="card stack" aria-label="Two members side by side">
      <div class="beside beside-head">
        <Chooser members={members} chosen={left} name="left" label="Left" />
        <Chooser members={members} chosen={right} name="right" label="Right" />
      </div>
      {shared > 0 && (
        <details class="faint">
          <summary>{sameWords(shared, rows.length)}</summary>
          {rows.slice(0, shared).map((row, i) => (
            <Row key={i} row={row} />
          ))}
        </details>
      )}
      {rows.slice(shared).map((row, i) => (
        <Row key={i} row={row} />
      ))}
      <p class="faint">
        Marked: <mark class={marks.left}>words of the left alone</mark>{" "}
        <mark class={marks.right}>words of the right alone</mark>
      </p>
    </section>
  );
}

function sameWords(shared: number, all: number): string {
  if (shared === all) return "They say the same.";
  return shared === 1 ? "The first message is the same." : `The first ${number(shared)} messages are the same.`;
}

function Chooser(props: { members: readonly Member[]; chosen: number; name: "left" | "right"; label: string }) {
  const { members, chosen, name, label } = props;
  return (
    <div class="row">
      <label class="field">
        <span class="unseen">{label}</span>
        <select
          class="select"
          value={String(chosen)}
          onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
        >
          {members.map(({ id, reward, side }, i) => (
            <option key={i} value={String(i)}>
              {plain(id)} · {side ?? number(reward)}
            </option>
          ))}
        </select>
      </label>
      <a href={link(["trajectory", members[chosen]!.key])}>open</a>
    </div>
  );
}

interface RowData {
  roles: readonly [string | undefined, string | undefined];
  diff: WordDiff;
  cut: boolean;
}

function rowsOf(a: Member, b: Member): RowData[] {
  return Array.from({ length: Math.max(a.messages.length, b.messages.length) }, (_, i): RowData => {
    const [left, right] = [a.messages[i] as Said | undefined, b.messages[i] as Said | undefined];
    const [x, y] = [textOf(left), textOf(right)];
    return {
      roles: [left?.role, right?.role],
      diff: wordDiff(x.slice(0, most), y.slice(0, most)),
      cut: Math.max(x.length, y.length) > most,
    };
  });
}

/** All that a message says. */
function textOf(message: Said | undefined): string {
  if (!message) return "";
  const { reasoning, content } = message;
  const calls = callsOf(message).map(
    ({ name, given }) => `${name}(${typeof given === "string" ? given : JSON.stringify(given)})`,
  );
  return [...(typeof reasoning === "string" ? [reasoning] : []), content, ...calls]
    .filter((one) => one !== "")
    .join("\n");
}

function Row({ row: { roles, diff, cut } }: { row: RowData }) {
  return (
    <div class="beside">
      <Side role={roles[0]} stretches={diff.left} mark={marks.left} />
      <Side role={roles[1]} stretches={diff.right} mark={marks.right} />
      {cut && <p class="faint">Only the first {number(most)} characters are compared.</p>}
    </div>
  );
}

function Side({
  role: who,
  stretches,
  mark,
}: {
  role: string | undefined;
  stretches: readonly Stretch[];
  mark: string;
}) {
  if (who === undefined) return <div class="beside-side faint">(it had ended)</div>;
  return (
    <div class="beside-side">
      <strong class="message-role">
        <Text value={who} />
      </strong>
      <div class="beside-text" dir="auto">
        {joinMarks(stretches).map(({ text, own }, i) =>
          own ? (
            <mark key={i} class={mark}>
              <Shortened text={text} />
            </mark>
          ) : (
            <Shortened key={i} text={text} />
          ),
        )}
        {stretches.length === 0 && <span class="faint">(nothing)</span>}
      </div>
    </div>
  );
}

const [head, tail] = [700, 300];

/** A long stretch has nothing in its middle that its ends do not tell: it is alike, or it is not. */
function Shortened({ text }: { text: string }) {
  if (text.length <= head + tail + 200) return <Text value={text} />;
  return (
    <>
      <Text value={text.slice(0, head)} />
      <span class="left-out"> … {plural(text.length - head - tail, "character")} … </span>
      <Text value={text.slice(-tail)} />
    </>
  );
}
