import { Page } from "../parts/page.tsx";

export function RunView() {
  return <Page title="Run">…</Page>;
}
