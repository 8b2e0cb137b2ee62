/** What the torch engine would find here. None of it is needed by the embedded one. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { messageOf, type StatesetError } from "../../error.ts";
import { packageVersion } from "../../package-version.ts";
import { findPython, gpuFolder, workerFolder } from "../../policy/torch/find-python.ts";
import { bytes } from "../../telemetry/format.ts";
import { messageAndHint } from "../failure.ts";
import { type PythonFacts, probePython } from "../setup-gpu/probe-python.ts";
import { isAtLeast, type Requirements, workerRequirements } from "../setup-gpu/requirements.ts";
import type { Check, Surroundings } from "./checks.ts";

const setUp = "npx stateset-agents setup-gpu (only for the torch engine)";

export async function checkTorch(env: Surroundings["env"]): Promise<Check[]> {
  const { check, needs } = checkWorker(env);
  if (!needs) return [check, ...gpuCheck(undefined)];
  const { check: python, facts } = await checkPython(env, needs);
  return [python, check, ...gpuCheck(facts)];
}

function checkWorker(env: Surroundings["env"]): { check: Check; needs?: Requirements } {
  const home = gpuFolder(env);
  const place = existsSync(join(home, ".venv")) ? `its environment is ${home}` : `no environment in ${home} yet`;
  try {
    const folder = workerFolder();
    const detail = `${packageVersion()} in ${folder}; ${place}`;
    return { check: { name: "Worker", status: "ok", detail }, needs: workerRequirements(folder) };
  } catch (error) {
    const { message, hint } = messageAndHint(error as StatesetError);
    return { check: { name: "Worker", status: "problem", detail: message, ...(hint && { fix: hint }) } };
  }
}

async function checkPython(
  env: Surroundings["env"],
  needs: Requirements,
): Promise<{ check: Check; facts?: PythonFacts }> {
  const note = (detail: string): { check: Check } => ({
    check: { name: "Python", status: "note", detail, fix: setUp },
  });
  let python: string;
  try {
    python = findPython(undefined, env);
  } catch (error) {
    return note(`${messageAndHint(error as StatesetError).message} It is for GPUs; the embedded engine needs none.`);
  }
  const names = [...needs.packages.map(({ name }) => name), "bitsandbytes"];
  const facts = await probePython(python, names, { env }).catch((error: unknown) => messageOf(error).split("\n")[0]!);
  if (typeof facts === "string") return note(`${python} does not run: ${facts}`);
  const { version, packages, broken } = facts;
  const have = Object.entries(packages).flatMap(([name, one]) => (one === null ? [] : [`${name} ${one}`]));
  const short = needs.packages.filter(({ name, least }) => !packages[name] || !isAtLeast(packages[name], least));
  const lacks = [
    ...(isAtLeast(version, needs.python) ? [] : [`Python ${needs.python}`]),
    ...short.map(({ name, least }) => `${name} ${least}`),
  ];
  const detail = `${version} (${python})${have.length > 0 ? ` with ${have.join(", ")}` : ""}`;
  if (broken !== undefined) return { ...note(`${detail}; PyTorch cannot be imported: ${broken}`), facts };
  if (lacks.length > 0) return { ...note(`${detail}; the torch engine wants ${lacks.join(", ")} or newer`), facts };
  return { check: { name: "Python", status: "ok", detail }, facts };
}

/** What the driver shows, and what of it PyTorch can use. */
function gpuCheck(facts: PythonFacts | undefined): Check[] {
  const asked = ["--query-gpu=name,memory.total", "--format=csv,noheader"];
  const { status, stdout } = spawnSync("nvidia-smi", asked, { encoding: "utf8", timeout: 10_000 });
  const shown = status === 0 ? stdout.trim().split("\n").filter(Boolean) : [];
  const usable = facts?.gpus ?? [];
  if (usable.length > 0) {
    const list = usable.map(({ name, totalBytes }) => `${name}, ${bytes(totalBytes)}`).join("; ");
    return [{ name: "GPU", status: "ok", detail: `${list} (--engine torch --gpus ${usable.length})` }];
  }
  if (shown.length === 0) {
    return [{ name: "GPU", status: "note", detail: "none found (not needed; the embedded engine runs on the CPU)" }];
  }
  const [why, fix] = facts?.gpus
    ? [
        "PyTorch sees none of it",
        "look at CUDA_VISIBLE_DEVICES and the driver; or setup-gpu --force, for a PyTorch with CUDA",
      ]
    : ["unused without PyTorch", setUp];
  return [{ name: "GPU", status: "note", detail: `${shown.join("; ")}; ${why}`, fix }];
}
