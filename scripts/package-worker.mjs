// The PyTorch worker as the npm package carries it: its Python package alone, so that both sides are always of one version.
import { cpSync, rmSync } from "node:fs";
import { join, sep } from "node:path";

const parts = ["pyproject.toml", "README.md", "stateset_agents_worker"];

/** Returns what removes it again: a copy that stays behind would be found before the one that is worked on. */
export function copyWorker(root, target) {
  const own = join(target, "python");
  const remove = () => rmSync(own, { recursive: true, force: true });
  remove();
  for (const part of parts) {
    const filter = (path) => !path.split(sep).includes("__pycache__");
    cpSync(join(root, "python", part), join(own, part), { recursive: true, filter });
  }
  return remove;
}
