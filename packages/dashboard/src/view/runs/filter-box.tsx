/** Words, or comparisons. What does not parse is said below it, with the place marked. */
import type { Ref } from "preact";
import type { ApiError } from "../../data/ask.ts";
import { Text } from "../parts/text.tsx";
import { useTyped } from "../parts/use-typed.ts";
import { placeIn } from "./place-in.ts";

interface Props {
  filter: string;
  error: ApiError | undefined;
  fields: readonly string[];
  input: Ref<HTMLInputElement>;
}

export function FilterBox({ filter, error, fields, input }: Props) {
  const { value: typed, change } = useTyped("filter", filter);
  const wrong = error?.param === "filter" && typed.trim() === filter ? error : undefined;
  const at = wrong && placeIn(wrong.message, filter);
  return (
    <div class="filter">
      <input
        ref={input}
        type="search"
        class="input"
        aria-label="Filter"
        aria-invalid={wrong !== undefined}
        aria-describedby={wrong ? "filter-wrong" : undefined}
        placeholder="Filter: words, or reward > 0.7 & algorithm = dapo"
        spellcheck={false}
        value={typed}
        list="filter-fields"
        onInput={(event) => change(event.currentTarget.value)}
      />
      <datalist id="filter-fields">
        {fields.map((field) => (
          <option key={field} value={`${field} = `} />
        ))}
      </datalist>
      {wrong && (
        <div id="filter-wrong" class="filter-wrong" role="alert">
          {at !== undefined && (
            <code>
              <Text value={filter.slice(0, at)} />
              <mark>{filter.slice(at, at + 1) || "▲"}</mark>
              <Text value={filter.slice(at + 1)} />
            </code>
          )}
          <span class="wrong">
            <Text value={wrong.message} />
          </span>
        </div>
      )}
    </div>
  );
}
