/** What a run is and how it stands. */

import { useState } from "preact/hooks";
import type { RunData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { link } from "../../data/url.ts";
import { Fact } from "../parts/fact.tsx";
import { NotesForm } from "../parts/notes-form.tsx";
import { ago, compact, duration, estimate, moment, number } from "../parts/number.ts";
import { RunState } from "../parts/run-state.tsx";
import { Text } from "../parts/text.tsx";

export function RunHead({ run, onChange }: { run: RunData; onChange(): void }) {
  const [editing, setEditing] = useState(false);
  const left = timeLeft(run);
  return (
    <section class="card run-head" aria-label="The run">
      <div class="row">
        <RunState state={run.state} />
        <strong class="run-title">
          <Text value={run.id} />
        </strong>
        {run.tags.map((tag) => (
          <span key={tag} class="chip">
            <Text value={tag} />
          </span>
        ))}
        {run.archived && <span class="chip">archived</span>}
        {!run.readOnly && !editing && (
          <button type="button" class="button small quiet" onClick={() => setEditing(true)}>
            ✎ Tags and note
          </button>
        )}
      </div>
      {run.steps !== null && (
        <div class="progress-line">
          <progress max={run.steps} value={run.step} aria-label="Steps done" />
          <span>
            step {number(run.step)} of {number(run.steps)}
            {left !== undefined && <span class="faint"> · about {duration(left)} left</span>}
          </span>
        </div>
      )}
      {run.reason && (
        <p class="soft">
          <Text value={run.reason} />
        </p>
      )}
      <dl class="run-facts">
        {run.steps === null && <Fact name="steps">{number(run.step)}</Fact>}
        <Fact name="algorithm">
          <Text value={run.algorithm ?? run.learner ?? "–"} />
        </Fact>
        <Fact name="model">
          <Text value={run.model ?? "–"} />
        </Fact>
        {run.reward !== null && <Fact name="last reward">{number(run.reward)}</Fact>}
        {run.heldOut && (
          <Fact name={`held-out ${run.heldOut.metric.replace(/^[^/]*\//, "")}`}>
            {run.heldOut.before && <span class="faint">{number(run.heldOut.before.mean, 3)} → </span>}
            {estimate(run.heldOut.after)}
          </Fact>
        )}
        <Fact name="seed">{run.seed === null ? "–" : String(run.seed)}</Fact>
        <Fact name="tokens/s">{compact(run.tokensPerSecond)}</Fact>
        <Fact name="started">
          <span title={ago(run.startedAt)}>{moment(run.startedAt)}</span>
        </Fact>
        {run.state === "running" && <Fact name="heartbeat">{ago(run.heartbeatAt)}</Fact>}
        {run.forkedFrom && (
          <Fact name="forked from">
            <a href={link(["run", run.forkedFrom.run])}>
              <Text value={run.forkedFrom.run} />
            </a>{" "}
            at step {number(run.forkedFrom.step)}
          </Fact>
        )}
      </dl>
      {run.note && !editing && (
        <p class="run-note">
          <Text value={run.note} />
        </p>
      )}
      {editing && (
        <NotesForm
          notes={{ run: run.key, tags: run.tags, note: run.note, archived: run.archived }}
          onSaved={onChange}
          onClose={() => setEditing(false)}
        />
      )}
    </section>
  );
}

/** As long as its steps took so far, for those that are left. */
function timeLeft({ state, step, steps, time }: RunData): number | undefined {
  if (state !== "running" || steps === null || step === 0) return undefined;
  return ((time.rolloutMs + time.updateMs + time.otherMs) / step) * (steps - step);
}
