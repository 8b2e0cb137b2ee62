/** The runs that are compared: each can be left out, and others be added. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { lineColour } from "../../chart/colours.ts";
import { askJson } from "../../data/ask.ts";
import { useKeys } from "../../data/keys.ts";
import { useResource } from "../../data/resource.ts";
import { link } from "../../data/url.ts";
import { number } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import { plain } from "../parts/visible.ts";

interface Props {
  asked: readonly string[];
  choose(runs: readonly string[]): void;
}

export function Picker({ asked, choose }: Props) {
  const [open, setOpen] = useState(false);
  useKeys([{ key: "+", does: "Add a run", run: () => setOpen(true) }]);
  return (
    <section class="picker" aria-label="Runs that are compared">
      <ul class="row">
        {asked.map((key, i) => (
          <li key={key} class="picked">
            <span class="swatch" style={{ background: lineColour(i) }} />
            <a href={link(["run", key])}>
              <Text value={key} />
            </a>
            <button
              type="button"
              class="button small quiet"
              aria-label={`Leave out ${plain(key)}`}
              onClick={() => choose(asked.filter((other) => other !== key))}
            >
              ×
            </button>
          </li>
        ))}
        <li>
          <button type="button" class="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            + Add a run
          </button>
        </li>
      </ul>
      {open && <Finder asked={asked} add={(key) => choose([...asked, key])} close={() => setOpen(false)} />}
    </section>
  );
}

const mostFound = 12;

function Finder({ asked, add, close }: { asked: readonly string[]; add(key: string): void; close(): void }) {
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  useKeys([{ key: "Escape", does: "Close the list of runs", run: close }]);
  const { data, error } = useResource(`find ${text}`, (signal) =>
    askJson<RunsData>("runs", { filter: text.trim() || undefined }, signal),
  );
  const found = (data?.rows ?? []).filter(({ key }) => !asked.includes(key)).slice(0, mostFound);
  return (
    <div class="card finder">
      <label>
        <span class="unseen">Find runs to add</span>
        <input
          ref={field}
          class="input"
          type="search"
          placeholder="Name, or algorithm = dapo & reward > 0.7"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && found[0]) add(found[0].key);
          }}
        />
      </label>
      {error && (
        <p class="wrong" role="alert">
          <Text value={error.message} />
        </p>
      )}
      <ul>
        {found.map((row) => (
          <li key={row.key}>
            <button type="button" class="button quiet finder-run" onClick={() => add(row.key)}>
              <span class="cut">
                <Text value={row.key} />
              </span>
              <span class="faint cut">
                <Text
                  value={[row.algorithm, row.seed === null ? null : `seed ${row.seed}`, row.state]
                    .filter(Boolean)
                    .join(", ")}
                />
              </span>
              <span class="right">{row.reward === null ? "" : `reward ${number(row.reward, 3)}`}</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="faint" role="status">
        {data && found.length === 0 && "No other run is like that."}
        {data &&
          data.total > found.length + asked.length &&
          found.length > 0 &&
          `The first ${found.length}; type to find others.`}
      </p>
    </div>
  );
}
