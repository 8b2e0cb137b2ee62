import { StatesetError } from "../../error.ts";
import type { ParameterVector, Policy } from "../policy.ts";
import { changedVersion } from "../version.ts";
import type { Reply } from "./reply.ts";
import { gone, type TorchCore } from "./torch-core.ts";
import type { WorkerLink } from "./worker-link.ts";

/** A vector that stays in the worker, sharded as the parameters are. */
class TorchVector implements ParameterVector {
  readonly length: number;
  readonly #core: TorchCore;
  readonly #link: WorkerLink;
  readonly #id: number;
  #released = false;

  constructor(core: TorchCore, link: WorkerLink, id: number, length: number) {
    this.#core = core;
    this.#link = link;
    this.#id = id;
    this.length = length;
    forgotten.register(this, { id, link }, this);
  }

  /** What the worker calls it. */
  idIn(core: TorchCore): number {
    if (this.#released) throw new StatesetError("INVALID_OPTION", "The vector was used after release().");
    if (core !== this.#core) throw new StatesetError("INVALID_OPTION", "The vector is of another policy.");
    if (core.link !== this.#link) throw gone("The vector");
    return this.#id;
  }

  async dot(other: ParameterVector): Promise<number> {
    return (await this.#call("vectorDot", { b: idOf(other, this.#core) })).number("dot");
  }

  async add(other: ParameterVector, scale = 1): Promise<void> {
    await this.#call("vectorAdd", { b: idOf(other, this.#core), scale });
  }

  async scale(by: number): Promise<void> {
    await this.#call("vectorScale", { factor: by });
  }

  async copy(): Promise<ParameterVector> {
    const { id } = vectorIn(await this.#call("vectorCopy"));
    return new TorchVector(this.#core, this.#link, id, this.length);
  }

  async read(): Promise<Float32Array> {
    return (await this.#call("vectorRead")).floats("values", this.length);
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    forgotten.unregister(this);
    free({ id: this.#id, link: this.#link });
  }

  async #call(op: string, options: Readonly<Record<string, unknown>> = {}): Promise<Reply> {
    const a = this.idIn(this.#core);
    return this.#core.run(() => this.#core.call(op, { a, ...options }));
  }
}

const free = ({ id, link }: { id: number; link: WorkerLink }) => link.connection.tell("vectorRelease", { vector: id });
const forgotten = new FinalizationRegistry(free);

function idOf(vector: ParameterVector, core: TorchCore): number {
  if (vector instanceof TorchVector) return vector.idIn(core);
  throw new StatesetError("INVALID_OPTION", "The vector is of another engine.");
}

const vectorIn = (reply: Reply) => ({ id: reply.count("vector") });

export function createVectors(core: TorchCore): Pick<Policy, "vector" | "moveTo"> {
  return {
    vector: (of) =>
      core.run(async () => {
        const { link } = core;
        const reply = await core.call("vector", { of });
        return new TorchVector(core, link, vectorIn(reply).id, reply.count("length"));
      }),
    moveTo: async (vector) =>
      core.run(async () => {
        const a = idOf(vector, core);
        const now = vectorIn(await core.call("vector", { of: "parameters" })).id;
        // Numbers that depend on where it led, for its name; the vector itself may be too large to be brought here.
        const [norm, along, moved] = await Promise.all([
          core.call("vectorDot", { a, b: a }),
          core.call("vectorDot", { a, b: now }),
          core.call("vectorMove", { a }),
        ]);
        core.link.connection.tell("vectorRelease", { vector: now });
        const version = await core.names.name(moved.count("count"), (before) =>
          changedVersion(before, "move", norm.number("dot"), along.number("dot")),
        );
        return { version, drained: moved.flag("drained") };
      }),
  };
}
