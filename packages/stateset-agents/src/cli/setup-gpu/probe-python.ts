import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** What a Python has of what the worker needs. */
export interface PythonFacts {
  version: string;
  /** Null: not installed. */
  packages: Record<string, string | null>;
  /** That PyTorch sees; undefined where it is not there. */
  gpus?: { name: string; totalBytes: number }[];
  /** Why PyTorch, though installed, cannot be imported. */
  broken?: string;
}

const script = `
import importlib.metadata as metadata, json, platform, sys
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return None
facts = {"version": platform.python_version(), "packages": {name: version(name) for name in sys.argv[1:]}}
if facts["packages"].get("torch"):
    try:
        import torch
        seen = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
        facts["gpus"] = [{"name": one.name, "totalBytes": one.total_memory} for one in seen]
    except Exception as error:
        facts["broken"] = f"{type(error).__name__}: {error}"
print(json.dumps(facts))
`;

/** To import PyTorch from a slow disk for the first time takes its time. */
const timeoutMs = 120_000;

/** Rejects where there is no such program, or it is no Python. */
export async function probePython(
  python: string,
  packages: readonly string[],
  { env, signal }: { env: Readonly<Record<string, string | undefined>>; signal?: AbortSignal },
): Promise<PythonFacts> {
  const options = { env: { ...env }, timeout: timeoutMs, ...(signal && { signal }) };
  const { stdout } = await promisify(execFile)(python, ["-c", script, ...packages], options);
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as PythonFacts;
}
