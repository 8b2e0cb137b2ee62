/** Which token is looked at: the one pointed at, or else the one gone to by keys or a click. One panel shows it, wherever it stands. */
import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";

export interface Selection {
  pointed: Signal<number | undefined>;
  chosen: Signal<number | undefined>;
  shown: ReadonlySignal<number | undefined>;
}

export function selection(first: number | undefined): Selection {
  const pointed = signal<number | undefined>(undefined);
  const chosen = signal(first);
  return { pointed, chosen, shown: computed(() => pointed.value ?? chosen.value) };
}

export function tokenAt(target: EventTarget | null): number | undefined {
  const found = target instanceof Element ? target.closest<HTMLElement>("[data-token]") : null;
  return found ? Number(found.dataset.token) : undefined;
}
