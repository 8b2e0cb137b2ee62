import { spawn } from "node:child_process";

/** What says, on Linux, that there is something to show a browser on. */
const screens = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"];

/**
 * Shows an address in the user's browser, where there is one. Whether it did cannot be known, and the address was printed. Not on a machine
 * without a screen: there others are logged in too, and could read the address among the processes before anybody used it.
 */
export function openBrowser(url: string, env: Readonly<Record<string, string | undefined>>): void {
  if (process.platform === "linux" && !screens.some((name) => env[name])) return;
  const [file, ...args] =
    process.platform === "darwin"
      ? ["open", url]
      : process.platform === "win32"
        ? ["cmd", "/c", "start", "", url.replaceAll("&", "^&")]
        : ["xdg-open", url];
  const child = spawn(file!, args, { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}
