/** How a run stands: a sign, a word and a colour, any of which is enough. */
import type { RunStateName } from "../../../../stateset-agents/src/dashboard/api/index.ts";

const states: Readonly<Record<RunStateName, { sign: string; word: string; tone: string }>> = {
  running: { sign: "●", word: "running", tone: "live" },
  finished: { sign: "✓", word: "finished", tone: "good" },
  "stopped-early": { sign: "■", word: "stopped early", tone: "plain" },
  interrupted: { sign: "‖", word: "interrupted", tone: "warn" },
  failed: { sign: "✕", word: "failed", tone: "bad" },
  lost: { sign: "?", word: "lost", tone: "bad" },
};

export function RunState({ state }: { state: RunStateName }) {
  const { sign, word, tone } = states[state];
  return (
    <span class={`run-state tone-${tone}`} data-state={state}>
      <span class="run-sign" aria-hidden="true">
        {sign}
      </span>
      {word}
    </span>
  );
}
