import { join, resolve } from "node:path";
import { StatesetError } from "../../error.ts";
import { checkTree } from "../check-tree.ts";
import { readReference, referenceFile } from "../native/reference-file.ts";
import type { Policy, Reference, ReferenceOf, Version } from "../policy.ts";
import { changedVersion, loadedVersion } from "../version.ts";
import { exists } from "../what-lies-at.ts";
import { filesOf, type Reply } from "./reply.ts";
import { gone, type TorchCore } from "./torch-core.ts";
import type { WorkerLink } from "./worker-link.ts";

/** A reference in a worker, and how to make it again in another one; undefined once it is like nothing else. */
interface Made {
  id: number;
  link: WorkerLink;
  version: Version;
  again: ReferenceOf | undefined;
}

/** Frozen weights in the worker. Those that can be made again from files outlive the worker that held them. */
export function createReferences(core: TorchCore): Pick<Policy, "reference"> {
  const { lora, adapterDir } = core.parts;
  const withoutAdapter = () => changedVersion(core.opened, "without its adapter");

  /** What Reference.save() called it; else a name by what it is. */
  const savedVersion = async (dir: string, reply: Reply): Promise<Version> => {
    if (!(await exists(join(dir, referenceFile)))) return loadedVersion(reply.text("digest"));
    const { source, version, engine } = await readReference(dir);
    if (source === "base") return withoutAdapter();
    if (source === "own") return version;
    if (engine !== "torch" || version === core.opened) return core.opened;
    throw new StatesetError(
      "CHECKPOINT_MISMATCH",
      `The reference in ${dir} is ${version}, which its policy was opened with.`,
      {
        hint: `${core.parts.name} is ${core.opened}: open the same model in the same way.`,
      },
    );
  };

  const make = async (of: ReferenceOf): Promise<Made> => {
    const { link, names, opened, info } = core;
    const asked = typeof of === "object" ? { from: resolve(of.from) } : of;
    const reply = await core.call("reference", { of: asked });
    const id = reply.count("reference");
    if (of === "base") return { id, link, version: lora ? withoutAdapter() : opened, again: of };
    if (typeof of === "object") return { id, link, version: await savedVersion(of.from, reply), again: of };
    const count = reply.count("count");
    // As it was opened: the files hold it, unless they lack a new adapter, which did nothing.
    const again = count !== info.count ? undefined : adapterDir !== undefined ? { from: adapterDir } : "base";
    return { id, link, version: await names.at(count), again };
  };

  const referenceOf = (first: Made): Reference => {
    let made = first;
    let version = first.version;
    let closed = false;
    let making: Promise<void> | undefined;
    /** Once, however many ask for it. */
    const makeAgain = () => {
      making ??= (async () => {
        if (made.again === undefined) throw gone("The reference");
        made = await make(made.again);
      })().finally(() => {
        making = undefined;
      });
      return making;
    };
    /** In the present worker. */
    const alive = <T>(work: (id: number) => Promise<T>): Promise<T> =>
      core.run(async () => {
        if (closed) throw new StatesetError("POLICY_CLOSED", "The reference was used after close().");
        if (made.link !== core.link) await makeAgain();
        return work(made.id);
      });
    return {
      get version() {
        return version;
      },
      logprobs: (batch, { temperature = 1 } = {}) =>
        alive(async (reference) => {
          checkTree(batch, core.info.vocabSize, core.info.contextLength);
          const { tokens, nodeStart, nodeParent, wanted } = batch;
          const arrays = { tokens, nodeStart, nodeParent, wanted };
          return (await core.call("referenceLogprobs", { reference, temperature }, arrays)).floats(
            "logprobs",
            tokens.length,
          );
        }),
      blend: (decay) =>
        alive(async (reference) => {
          const now = core.names.now;
          made.again = undefined;
          version = changedVersion(version, "blend", decay, now);
          await core.call("referenceBlend", { reference, decay });
        }),
      save: (dir) =>
        alive(async (reference) =>
          filesOf(await core.call("referenceSave", { reference, dir: resolve(dir), version })),
        ),
      async close() {
        if (closed) return;
        closed = true;
        if (made.link === core.link && !core.closed) await core.call("referenceClose", { reference: made.id });
      },
    };
  };

  return { reference: (of = "present") => core.run(async () => referenceOf(await make(of))) };
}
