import { type Command, Option } from "commander";
import { demoRewards } from "../demo/demo-task.ts";
import type { DemoOptions } from "../demo/run-demo.ts";
import { demoTaskNames } from "../demo/tasks.ts";
import { engineOption, gpusOption } from "../engine-options.ts";
import type { CliIo } from "../io.ts";
import { countingNumber, wholeNumber } from "../values.ts";

export function addDemo(program: Command, io: CliIo): void {
  program
    .command("demo")
    .description("Teach the bundled model something, and see what came of it; a few minutes on two cores.")
    .addOption(
      new Option(
        "--task <name>",
        "polite (default): to be polite and brief; shop: to serve a shop's customers with its tools",
      ).choices(demoTaskNames),
    )
    .option("--resume [run]", "go on with a demo that was stopped (default: the newest)")
    .option(
      "--model <model>",
      "a model folder, GGUF file or hub id instead: trains an adapter on it, and takes as long as it is large",
    )
    .option("--seed <n>", "everything random follows from it", wholeNumber)
    .option("--steps <n>", "rounds of sampling and learning", countingNumber)
    .addOption(engineOption())
    .addOption(gpusOption())
    .option("--threads <n>", "threads of the embedded engine", wholeNumber)
    .addOption(
      new Option(
        "--reward <kind>",
        "what it learns from, in place of the task's own (polite, success): flipped makes it worse, constant changes nothing",
      ).choices(demoRewards),
    )
    .option("--json", "print one JSON object an event; the last line is the result")
    .action(async (flags: DemoOptions) => {
      const { runDemo } = await import("../demo/run-demo.ts");
      await runDemo(flags, io);
    });
}
