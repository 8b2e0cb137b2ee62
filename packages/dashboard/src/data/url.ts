/** Where the page is: all of its state that somebody may want to send to somebody else stands in the address, after the #. */
import { computed, signal } from "@preact/signals";
import { link, parsePlace } from "./place.ts";

export { link };

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const place = computed(() => parsePlace(hash.value));

export function go(path: readonly string[], query?: Readonly<Record<string, string | undefined>>): void {
  location.hash = link(path, query);
}

/** Changes some of the query and leaves the rest. `replace`: going back does not come to what was before, as for a zoom or a text being typed. */
export function setQuery(change: Readonly<Record<string, string | undefined>>, { replace = true } = {}): void {
  const { path, query } = place.value;
  const to = link(path, { ...query, ...change });
  if (to === location.hash) return;
  if (replace) {
    history.replaceState(null, "", to);
    hash.value = location.hash;
  } else location.hash = to;
}
