import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { messageOf, StatesetError } from "../error.ts";

/** The default export of a TypeScript or JavaScript file. It gets this very copy of the library, wherever it lies on the disk. */
export async function importFile(file: string, where: string): Promise<unknown> {
  if (!existsSync(file)) {
    throw new StatesetError("CONFIG_NOT_FOUND", `There is no file ${file}, which ${where} names.`, {
      hint: "Paths in a configuration are relative to its own folder.",
    });
  }
  const jiti = createJiti(pathToFileURL(file).href, {
    interopDefault: true,
    moduleCache: false,
    virtualModules: await doors(),
  });
  try {
    return await jiti.import(file, { default: true });
  } catch (error) {
    if (StatesetError.isInstance(error)) throw error;
    throw new StatesetError("INVALID_DATA", `${file} could not be loaded: ${messageOf(error)}`, { cause: error });
  }
}

/** Whether a word of a configuration names a file of code rather than something built in. */
export function namesCode(text: string): boolean {
  return /^\.{0,2}\/|\.[cm]?[jt]s$/.test(text);
}

/** Every door of the library by the name it is imported by. */
async function doors(): Promise<Record<string, unknown>> {
  return {
    "stateset-agents": await import("../index.ts"),
    "stateset-agents/policy": await import("../doors/policy.ts"),
    "stateset-agents/algorithms": await import("../doors/algorithms.ts"),
    "stateset-agents/rewards": await import("../doors/rewards.ts"),
    "stateset-agents/tools": await import("../doors/tools.ts"),
    "stateset-agents/telemetry": await import("../doors/telemetry.ts"),
    "stateset-agents/testing": await import("../doors/testing.ts"),
    "stateset-agents/compat": await import("../doors/compat.ts"),
  };
}
