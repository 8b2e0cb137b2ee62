/** Stop and resume, for runs of this machine. Each is asked about once more. */
import { useState } from "preact/hooks";
import type { RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { ApiError, send } from "../../data/ask.ts";
import { Confirm } from "../parts/confirm.tsx";
import { Text } from "../parts/text.tsx";

type Act = "stop" | "resume";

const words = {
  stop: {
    button: "Stop",
    title: "Stop this run?",
    text: "It saves a checkpoint of the steps done and ends; it can be resumed.",
  },
  resume: {
    button: "Resume",
    title: "Resume this run?",
    text: "It goes on from its last checkpoint, in a process of its own on this machine.",
  },
} as const;

export function Controls({ run, onChange }: { run: RunData; onChange(): void }) {
  const [asked, setAsked] = useState<Act>();
  const [error, setError] = useState<string>();
  const act = async (what: Act) => {
    setAsked(undefined);
    try {
      await send(`runs/${encodeURIComponent(run.key)}/${what}`);
      setError(undefined);
      onChange();
    } catch (problem) {
      setError(problem instanceof ApiError ? problem.message : String(problem));
    }
  };
  const shown = (["stop", "resume"] as const).filter((what) => run[what].possible || relevant(what, run));
  return (
    <>
      {error && (
        <span class="wrong" role="alert">
          <Text value={error} />
        </span>
      )}
      {shown.map((what) => {
        const { possible, why } = run[what];
        const stopping = what === "stop" && run.stop.asked;
        return (
          <button
            key={what}
            type="button"
            class={`button ${what === "stop" ? "danger" : ""}`}
            disabled={stopping}
            aria-disabled={!possible}
            title={why ?? undefined}
            onClick={() => (possible ? setAsked(what) : setError(why ?? undefined))}
          >
            {stopping ? "Stopping…" : words[what].button}
          </button>
        );
      })}
      {asked && (
        <Confirm
          title={words[asked].title}
          yes={words[asked].button}
          onYes={() => act(asked)}
          onNo={() => setAsked(undefined)}
        >
          <p>{words[asked].text}</p>
          {run[asked].command && (
            <p class="soft">
              The same on the command line: <code>{run[asked].command}</code>
            </p>
          )}
        </Confirm>
      )}
    </>
  );
}

/** A button that does nothing now is shown where somebody would look for it, and says why. */
function relevant(what: Act, { state, stop, resume }: RunData): boolean {
  if (what === "stop") return state === "running" && stop.why !== null;
  return (state === "interrupted" || state === "failed" || state === "lost") && resume.why !== null;
}
