import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/tiny-model.ts";
import { packageSource } from "./package-source.ts";

describe("the package that a new project depends on", () => {
  let place: string;
  let root: string;
  const project = () => join(place, "work", "my-agent");

  /** An installation as npm leaves it. */
  function install(packages: Record<string, { resolved?: string; link?: boolean }>): void {
    const entries = Object.entries(packages).map(([name, entry]) => [`node_modules/${name}`, entry]);
    writeFileSync(
      join(place, "work", "node_modules", ".package-lock.json"),
      JSON.stringify({ packages: Object.fromEntries(entries) }),
    );
  }

  beforeEach(async () => {
    place = await temporaryFolder();
    root = join(place, "work", "node_modules", "stateset-agents");
    mkdirSync(root, { recursive: true });
    mkdirSync(join(place, "tarballs"));
    writeFileSync(join(root, "package.json"), JSON.stringify({ name: "stateset-agents", version: "3.2.1" }));
  });

  it("is the version, where npm got it from a registry", () => {
    install({
      "stateset-agents": { resolved: "https://registry.npmjs.org/stateset-agents/-/stateset-agents-3.2.1.tgz" },
    });
    expect(packageSource(project(), root)).toEqual({ dependencies: { "stateset-agents": "^3.2.1" } });
    // Some npm settings leave out from which.
    install({ "stateset-agents": {} });
    expect(packageSource(project(), root)).toEqual({ dependencies: { "stateset-agents": "^3.2.1" } });
  });

  it("is the tarballs, all of them, where it was installed from those", () => {
    const from = (name: string) => ({ resolved: `file:../tarballs/${name}.tgz` });
    for (const name of ["a", "e", "p"]) writeFileSync(join(place, "tarballs", `${name}.tgz`), "");
    install({
      "stateset-agents": from("a"),
      "@stateset-agents/engine": from("e"),
      "@stateset-agents/engine-linux-x64-gnu": from("p"),
      commander: { resolved: "https://registry.npmjs.org/commander/-/commander-14.0.3.tgz" },
      other: from("o"),
    });
    const source = packageSource(project(), root);
    expect(source.dependencies).toEqual({
      "stateset-agents": "file:../../tarballs/a.tgz",
      "@stateset-agents/engine": "file:../../tarballs/e.tgz",
    });
    expect(source.optionalDependencies).toEqual({
      "@stateset-agents/engine-linux-x64-gnu": "file:../../tarballs/p.tgz",
    });
    expect(source.note).toContain(join(place, "tarballs"));
  });

  it("is the folder it runs from otherwise: a clone, a link, or a copy whose tarballs are gone", () => {
    const linked = { dependencies: { "stateset-agents": "file:../node_modules/stateset-agents" } };
    expect(packageSource(project(), root)).toMatchObject(linked);
    install({ "stateset-agents": { resolved: "packages/stateset-agents", link: true } });
    expect(packageSource(project(), root)).toMatchObject(linked);
    install({ "stateset-agents": { resolved: "file:../tarballs/gone.tgz" } });
    const source = packageSource(project(), root);
    expect(source).toMatchObject(linked);
    expect(source.note).toContain("are gone");
  });
});
