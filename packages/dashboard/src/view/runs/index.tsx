import { Page } from "../parts/page.tsx";

export function RunsView() {
  return <Page title="Runs">…</Page>;
}
