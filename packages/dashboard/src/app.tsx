/** Which view a place shows. */
import type { ComponentType } from "preact";
import { place } from "./data/url.ts";

/** `#/<name>/…` → the view; each reads the rest of the place itself. */
const views: Readonly<Record<string, ComponentType>> = {};

export function App() {
  const { path } = place.value;
  const View = views[path[0] ?? "runs"];
  return View ? <View /> : <p>There is no such page.</p>;
}
