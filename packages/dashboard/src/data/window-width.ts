/** How wide the window is, for what depends on it and is not a matter of style alone. */
import { signal } from "@preact/signals";

export const windowWidth = signal(innerWidth);
addEventListener("resize", () => {
  windowWidth.value = innerWidth;
});
