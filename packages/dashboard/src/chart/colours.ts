/** Colours of style/colours.css for what is drawn on a canvas. */
import { dark } from "../data/theme.ts";

export const lineColours = 8;

/** The name of the variable, for CSS. */
export const lineColour = (index: number) => `var(--line-${(index % lineColours) + 1})`;

/** By the theme they were looked up in. */
const known = new Map<string, string>();
const probe = document.createElement("span");
probe.hidden = true;

/** What a colour of CSS is now: canvases know no variables. */
export function resolved(colour: string, alpha = 1): string {
  const name = `${dark.value} ${colour} ${alpha}`;
  const before = known.get(name);
  if (before !== undefined) return before;
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = colour;
  const [r = "0", g = "0", b = "0"] = getComputedStyle(probe).color.match(/[\d.]+/g) ?? [];
  const found = `rgba(${r}, ${g}, ${b}, ${alpha})`;
  known.set(name, found);
  return found;
}
