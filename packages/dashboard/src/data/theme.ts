/** Light or dark: as the system has it, unless somebody chose. */
import { computed, effect, signal } from "@preact/signals";

const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];
const kept = "stateset-agents.theme";

export const theme = signal<Theme>(read());
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const system = signal(systemDark.matches);
systemDark.addEventListener("change", ({ matches }) => {
  system.value = matches;
});

/** What is drawn on a canvas is drawn anew when this changes. */
export const dark = computed(() => (theme.value === "system" ? system.value : theme.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function nextTheme(): void {
  theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length]!;
  try {
    localStorage.setItem(kept, theme.value);
  } catch {
    // A browser that keeps nothing shows it for now.
  }
}

function read(): Theme {
  try {
    return themes.find((one) => one === localStorage.getItem(kept)) ?? "system";
  } catch {
    return "system";
  }
}
