import { architectures, makeTinyModel, storiesDir } from "../../test/tiny-model.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { describePolicy } from "./contract.cases.ts";
import { loadNativePolicy } from "./native/load.ts";
import { createStubPolicy } from "./stub/stub-policy.ts";

const lora = { rank: 4, alpha: 8, dropout: 0, targetModules: "all-linear" } as const;

describePolicy("the embedded engine", { open: () => loadNativePolicy({ dir: storiesDir }), trains: true });
describePolicy("the embedded engine with an adapter", {
  open: () => loadNativePolicy({ dir: storiesDir, lora }),
  trains: true,
});
for (const architecture of architectures) {
  const dir = makeTinyModel(architecture);
  describePolicy(`the embedded engine on a random ${architecture}`, {
    open: async () => loadNativePolicy({ dir: await dir }),
    trains: true,
  });
}
describePolicy("the table policy of the tests", { open: async () => createTablePolicy({ spread: 1 }), trains: true });
describePolicy("a stub", { open: async () => createStubPolicy(), trains: false, draws: false });
describePolicy("a stub that pretends to learn", {
  open: async () => createStubPolicy({ dryRun: true }),
  trains: false,
  draws: false,
});
