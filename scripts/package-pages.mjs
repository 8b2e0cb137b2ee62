// The pages of the repository as the npm package carries them: its README and docs/, with no link that leads nowhere.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

/** `[text](target)` and `![text](target)`. */
const link = /(!?)\[([^\][]*)\]\(([^)\s]+)\)/g;

export function copyPages(root, target) {
  rmSync(join(target, "docs"), { recursive: true, force: true });
  cpSync(join(root, "docs"), join(target, "docs"), { recursive: true });
  for (const page of ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"]) cpSync(join(root, page), join(target, page));
  const pages = readdirSync(target, { recursive: true })
    .map(String)
    .filter((page) => page.endsWith(".md") && (page.startsWith(`docs${sep}`) || !page.includes(sep)));
  for (const page of pages) {
    const file = join(target, page);
    writeFileSync(file, withoutDeadLinks(readFileSync(file, "utf8"), dirname(file), target));
  }
}

/** A relative link to what the package does not hold becomes its text, an image nothing. */
export function withoutDeadLinks(text, dir, target) {
  return text.replace(link, (whole, image, words, to) => {
    const [path] = to.split("#");
    if (/^[a-z][a-z0-9+.-]*:/i.test(to) || path === "") return whole;
    const file = resolve(dir, path);
    const inside = !relative(target, file).startsWith("..");
    if (inside && existsSync(file)) return whole;
    return image ? "" : words;
  });
}
