import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import { StatesetError } from "../../error.ts";
import { findPackageRoot } from "../../package-root.ts";

/** What `stateset-agents setup-gpu` makes. */
export function gpuFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "stateset-agents", "gpu");
}

/** The Python that runs the worker: the one that is named, the one in the environment, that of setup-gpu, or any. */
export function findPython(named: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  const asked = named ?? (env.STATESET_PYTHON || undefined);
  if (asked !== undefined) {
    if (locate(asked, env) !== undefined) return asked;
    throw missing(`There is no Python at ${asked}${named === undefined ? ", which STATESET_PYTHON names" : ""}.`);
  }
  const own = join(gpuFolder(env), ".venv", "bin", "python");
  const found = existsSync(own) ? own : locate("python3", env);
  if (found === undefined) throw missing("No Python was found for the PyTorch worker.");
  return found;
}

function missing(what: string): StatesetError {
  return new StatesetError("ENGINE_UNAVAILABLE", what, {
    hint: "`stateset-agents setup-gpu` installs one with PyTorch; or name yours by the option torch.python or by STATESET_PYTHON.",
  });
}

function locate(program: string, env: NodeJS.ProcessEnv): string | undefined {
  if (isAbsolute(program) || program.includes("/")) return existsSync(program) ? program : undefined;
  const folders = (env.PATH ?? "").split(delimiter).filter(Boolean);
  return folders.map((folder) => join(folder, program)).find((file) => existsSync(file));
}

/** The folder that holds the Python package of the worker: beside dist/ where it is installed, at the repository's root in a clone. */
export function workerFolder(root: string = findPackageRoot()): string {
  const places = [join(root, "python"), join(root, "..", "..", "python")];
  const found = places.find((dir) => existsSync(join(dir, "stateset_agents_worker", "__init__.py")));
  if (found !== undefined) return found;
  throw new StatesetError("ENGINE_UNAVAILABLE", `The PyTorch worker is missing from the installation in ${root}.`, {
    hint: "Install stateset-agents anew.",
  });
}
