/** Which conversations of a run are listed. */
import type { Ref } from "preact";
import { setQuery } from "../../data/url.ts";
import { useTyped } from "../parts/use-typed.ts";

interface Props {
  query: Readonly<Record<string, string>>;
  /** What of it the server did not understand. */
  wrong: string | null;
  text: Ref<HTMLInputElement>;
}

export function StepFilters({ query, wrong, text }: Props) {
  return (
    <search class="step-filters" aria-label="Which conversations">
      <Typed
        name="text"
        label="What was said"
        placeholder="Words that were said"
        query={query}
        wrong={wrong}
        input={text}
      />
      <Typed name="scenario" label="Scenario" placeholder="Scenario" query={query} wrong={wrong} />
      <Typed name="reward" label="Reward" placeholder="Reward: >0.5, 0.2..0.8" query={query} wrong={wrong} />
      <Chosen name="failed" label="Failures" query={query}>
        <option value="">with failures</option>
        <option value="only">failures only</option>
        <option value="none">without failures</option>
      </Chosen>
      <Chosen name="set" label="From" query={query}>
        <option value="">training</option>
        <option value="evaluation">evaluation</option>
      </Chosen>
      <Chosen name="sort" label="Order" query={query}>
        <option value="">as recorded</option>
        <option value="-reward">best first</option>
        <option value="reward">worst first</option>
      </Chosen>
    </search>
  );
}

interface FieldProps {
  name: string;
  label: string;
  query: Readonly<Record<string, string>>;
}

function Typed({
  name,
  label,
  query,
  placeholder,
  wrong,
  input,
}: FieldProps & { placeholder: string; wrong: string | null; input?: Ref<HTMLInputElement> }) {
  const { value, change } = useTyped(name, query[name] ?? "");
  return (
    <input
      ref={input ?? null}
      type="search"
      class="input"
      aria-label={label}
      aria-invalid={wrong === name}
      placeholder={placeholder}
      value={value}
      onInput={(event) => change(event.currentTarget.value)}
    />
  );
}

function Chosen({ name, label, query, children }: FieldProps & { children: preact.ComponentChildren }) {
  return (
    <select
      class="select"
      aria-label={label}
      value={query[name] ?? ""}
      onChange={(event) => setQuery({ [name]: event.currentTarget.value || undefined })}
    >
      {children}
    </select>
  );
}
