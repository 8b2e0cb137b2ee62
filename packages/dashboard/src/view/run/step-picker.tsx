/** From one recorded step to another. */
import { useMemo } from "preact/hooks";
import { go } from "../../data/url.ts";
import { number } from "../parts/number.ts";

interface Props {
  run: string;
  recorded: readonly number[];
  step: number | undefined;
  onStep(step: number | undefined): void;
}

export function StepPicker({ run, recorded, step, onStep }: Props) {
  const at = step === undefined ? -1 : recorded.indexOf(step);
  const before = at > 0 ? recorded[at - 1] : undefined;
  const after = at >= 0 ? recorded[at + 1] : undefined;
  // There may be thousands, and the page around them is drawn whenever more conversations come.
  const options = useMemo(
    () => (
      <>
        {[...new Set([...recorded, ...(step === undefined ? [] : [step])])]
          .sort((a, b) => a - b)
          .map((one) => (
            <option key={one} value={String(one)}>
              step {number(one)}
            </option>
          ))}
      </>
    ),
    [recorded, step],
  );
  return (
    <div class="segments step-picker">
      <button
        type="button"
        class="button"
        aria-label="Recorded step before"
        disabled={before === undefined}
        onClick={() => onStep(before)}
      >
        ‹
      </button>
      <select
        class="select"
        aria-label="Step"
        value={step === undefined ? "all" : String(step)}
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (value === "all") go(["run", run, "step", "all"]);
          else onStep(Number(value));
        }}
      >
        <option value="all">all steps</option>
        {options}
      </select>
      <button
        type="button"
        class="button"
        aria-label="Next recorded step"
        disabled={after === undefined}
        onClick={() => onStep(after)}
      >
        ›
      </button>
    </div>
  );
}
