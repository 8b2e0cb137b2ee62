/** What the tokens are coloured by, how they are shown, and what can be taken away. */
import { useState } from "preact/hooks";
import type { TrajectoryData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { setQuery } from "../../data/url.ts";
import { copyables, toClipboard } from "./copy.ts";
import { chooseColour, colourChoices, type Look } from "./look.ts";

export function Toolbar({ data, look }: { data: TrajectoryData; look: Look | undefined }) {
  return (
    <div class="trajectory-tools">
      <div class="row">
        {look && <Colours look={look} />}
        {look && <Toggles look={look} group={data.group !== null} />}
        <Copy data={data} look={look} />
      </div>
    </div>
  );
}

function Colours({ look }: { look: Look }) {
  return (
    <fieldset class="segments colours">
      <legend class="unseen">Colour tokens by</legend>
      {colourChoices(look).map(({ name, label, meaning, chosen }) => (
        <button
          key={name}
          type="button"
          class="button"
          title={`${meaning} (t: the next one)`}
          aria-pressed={chosen}
          onClick={() => chooseColour(name)}
        >
          {label}
        </button>
      ))}
    </fieldset>
  );
}

function Toggles({ look, group }: { look: Look; group: boolean }) {
  const wide = look.scaleOf.includes("group");
  return (
    <>
      <Toggle
        label="Boundaries"
        title="Where each token begins, spaces and line feeds visible (b)"
        on={look.boundaries}
        name="boundaries"
      />
      <Toggle label="Special tokens" title="Tokens that no text makes" on={look.special} name="special" off="0" />
      <Toggle label="All tokens" title="Prompts and templates too, chain by chain (a)" on={look.all} name="all" />
      {group && (
        <button
          type="button"
          class="button"
          aria-pressed={wide}
          title="One scale for all members of the group, so that their colours can be compared"
          onClick={() => setQuery({ scale: wide ? undefined : "group" })}
        >
          Group's scale
        </button>
      )}
    </>
  );
}

function Toggle({
  label,
  title,
  on,
  name,
  off,
}: {
  label: string;
  title: string;
  on: boolean;
  name: string;
  off?: string;
}) {
  return (
    <button
      type="button"
      class="button"
      aria-pressed={on}
      title={title}
      onClick={() => setQuery({ [name]: on ? off : "1" })}
    >
      {label}
    </button>
  );
}

function Copy({ data, look }: { data: TrajectoryData; look: Look | undefined }) {
  const [said, setSaid] = useState("");
  return (
    <fieldset class="row trajectory-copy">
      <legend class="unseen">Copy as</legend>
      <span class="faint" aria-hidden="true">
        Copy
      </span>
      {copyables(data, look?.tokens).map(({ name, said: words, text }) => (
        <button
          key={name}
          type="button"
          class="button small"
          aria-label={`Copy as ${name}`}
          onClick={() => void toClipboard(text()).then(() => setSaid(words))}
        >
          {name}
        </button>
      ))}
      <span class="faint" role="status">
        {said}
      </span>
    </fieldset>
  );
}
