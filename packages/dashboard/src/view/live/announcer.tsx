/** For whoever listens to the page: now and then a sentence, and never one for each conversation. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { LiveConversation, RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { number, plural } from "../parts/number.ts";
import { plain } from "../parts/visible.ts";
import { statisticsOf, stepsNow } from "./groups.ts";

const everyMs = 15_000;

interface Props {
  rows: readonly RunRow[];
  conversations: readonly LiveConversation[];
  paused: boolean;
}

export function Announcer(props: Props) {
  const latest = useRef(props);
  latest.current = props;
  const [said, say] = useState("");
  useEffect(() => {
    const timer = setInterval(() => {
      if (!latest.current.paused) say(announcement(latest.current.rows, latest.current.conversations));
    }, everyMs);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class="unseen" aria-live="polite">
      {said}
    </p>
  );
}

function announcement(rows: readonly RunRow[], conversations: readonly LiveConversation[]): string {
  const steps = stepsNow(conversations);
  return rows
    .map(({ key, id, state, step: done }) => {
      if (state !== "running") return `${plain(id)}: ${state}.`;
      const step = steps.get(key) ?? done;
      const { count, mean } = statisticsOf(conversations.filter((one) => one.run === key && one.step === step));
      const reward = mean === null ? "" : `, mean reward ${number(mean, 2)}`;
      return `${plain(id)}: step ${step}, ${plural(count, "conversation")} ended${reward}.`;
    })
    .join(" ");
}
