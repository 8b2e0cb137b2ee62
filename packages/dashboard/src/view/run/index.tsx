import "./run.css";
import { link, place } from "../../data/url.ts";
import { Page } from "../parts/page.tsx";
import { RunPage } from "./run-page.tsx";
import { StepPage } from "./step-page.tsx";

/** `#/run/<key>` and `#/run/<key>/step/<n>`, or `step/all`. */
export function RunView() {
  const [, key, part, number] = place.value.path;
  if (key === undefined) {
    return (
      <Page title="Which run?" crumbs={[{ text: "which run?" }]}>
        <p>
          The address names no run. <a href={link(["runs"])}>All runs</a>
        </p>
      </Page>
    );
  }
  if (part === "step" && number !== undefined) {
    return <StepPage key={key} run={key} step={/^\d+$/.test(number) ? Number(number) : undefined} />;
  }
  return <RunPage key={key} run={key} />;
}
