import { spawn } from "node:child_process";

/** Shows an address in the user's browser, where there is one. Whether it did cannot be known, and the address was printed. */
export function openBrowser(url: string): void {
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
