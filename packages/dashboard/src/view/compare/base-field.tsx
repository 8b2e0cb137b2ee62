import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { setQuery } from "../../data/url.ts";
import { SelectField } from "../parts/list-fields.tsx";

/** The run that others are compared with. */
export function BaseField({ runs, base }: { runs: CompareData["runs"]; base: string }) {
  return (
    <SelectField
      label="Base"
      value={base}
      options={runs.map(({ key }) => [key, key])}
      choose={(chosen) => setQuery({ base: chosen })}
    />
  );
}
