/** What is shown, in which order, and whether new ones may come. */
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { setQuery } from "../../data/url.ts";
import { number, plural } from "../parts/number.ts";
import { plain } from "../parts/visible.ts";
import type { Wanted } from "./groups.ts";
import type { Hold } from "./index.tsx";

interface Props {
  hold: Hold;
  grouped: boolean;
  wanted: Wanted;
  scenarios: readonly string[];
  shown: readonly LiveConversation[];
}

export function Controls({ hold, grouped, wanted, scenarios, shown }: Props) {
  return (
    <div class="live-controls" role="toolbar" aria-label="What is shown">
      <button
        type="button"
        class={`button live-pause ${hold.paused ? "primary" : ""}`}
        aria-pressed={hold.paused}
        onClick={hold.toggle}
      >
        {hold.paused ? `▶ Go on${hold.waiting > 0 ? `, ${number(hold.waiting)} new` : ""}` : "❚❚ Pause"}
      </button>
      <label class="field">
        Order{" "}
        <select
          class="select"
          value={grouped ? "groups" : "newest"}
          onChange={({ currentTarget }) => setQuery({ order: currentTarget.value === "groups" ? "groups" : undefined })}
        >
          <option value="newest">newest first</option>
          <option value="groups">by group</option>
        </select>
      </label>
      <label class="field">
        Scenario{" "}
        <select
          class="select live-scenarios"
          value={wanted.scenario === undefined ? "all" : `=${wanted.scenario}`}
          onChange={({ currentTarget: { value } }) =>
            setQuery({ scenario: value.startsWith("=") ? value.slice(1) : undefined })
          }
        >
          <option value="all">all</option>
          {scenarios.map((scenario) => (
            <option key={scenario} value={`=${scenario}`}>
              {plain(scenario) || "(none)"}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <input
          type="checkbox"
          checked={wanted.failedOnly}
          onChange={({ currentTarget }) => setQuery({ failed: currentTarget.checked ? "only" : undefined })}
        />{" "}
        failed only
      </label>
      <label class="field">
        <input
          type="checkbox"
          checked={wanted.allSteps}
          onChange={({ currentTarget }) => setQuery({ steps: currentTarget.checked ? "all" : undefined })}
        />{" "}
        all steps
      </label>
      <span class="faint">{plural(shown.length, "conversation")}</span>
    </div>
  );
}
