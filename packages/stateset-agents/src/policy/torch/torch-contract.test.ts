/** The Policy contract over the torch engine, on the CPU. Needs STATESET_PYTHON. */
import { describe } from "vitest";
import { storiesDir } from "../../../test/tiny-model.ts";
import { python, TorchWorkers } from "../../../test/torch-workers.ts";
import { describePolicy } from "../contract.cases.ts";

const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;

describe.skipIf(!python)("with STATESET_PYTHON", () => {
  const workers = new TorchWorkers();
  describePolicy("the torch engine", { open: () => workers.open({ dir: storiesDir }), trains: true });
  describePolicy("the torch engine with an adapter", {
    open: () => workers.open({ dir: storiesDir, lora }),
    trains: true,
  });
});
