import type { Reporter, TestModule } from "vitest/node";

// The last lines of a run in CI: what failed, also once, and what took longest, where an output that was cut still shows them.
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandled: ReadonlyArray<{ message: string }>): void {
    const lines = ["", "Slowest files:"];
    const slowest = [...modules].sort((a, b) => b.diagnostic().duration - a.diagnostic().duration).slice(0, 12);
    for (const module of slowest)
      lines.push(`  ${(module.diagnostic().duration / 1000).toFixed(0)} s  ${module.relativeModuleId}`);
    const failed = [...failures(modules), ...unhandled.map(({ message }) => `outside of tests: ${firstLine(message)}`)];
    const again = [...shaky(modules)];
    if (again.length > 0)
      lines.push("Passed when run again, and to be looked into:", ...again.map((line) => `  ${line}`));
    if (failed.length > 0) lines.push("Failed:", ...failed.map((line) => `  ${line}`));
    console.log(lines.join("\n"));
  }
}

function* shaky(modules: ReadonlyArray<TestModule>): Generator<string> {
  for (const module of modules)
    for (const test of module.children.allTests("passed"))
      if (test.diagnostic()?.flaky)
        yield `${module.relativeModuleId} > ${test.fullName}: ${firstLine(test.result().errors?.[0]?.message ?? "")}`;
}

function* failures(modules: ReadonlyArray<TestModule>): Generator<string> {
  for (const module of modules) {
    for (const error of module.errors()) yield `${module.relativeModuleId}: ${firstLine(error.message)}`;
    for (const suite of module.children.allSuites())
      for (const error of suite.errors())
        yield `${module.relativeModuleId} > ${suite.fullName}: ${firstLine(error.message)}`;
    for (const test of module.children.allTests("failed"))
      yield `${module.relativeModuleId} > ${test.fullName}: ${firstLine(test.result().errors?.[0]?.message ?? "")}`;
  }
}

const firstLine = (text: string): string => (text.split("\n", 1)[0] ?? "").slice(0, 300);
