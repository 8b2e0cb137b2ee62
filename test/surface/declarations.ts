/** What each door of the built package declares, as text that changes only when the types do. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const folder = fileURLToPath(new URL("../../packages/stateset-agents/", import.meta.url));
const dist = join(folder, "dist");

/** The doors in the order users should meet them: `index` is the main one. */
export const doors: readonly string[] = Object.values(
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).exports as Record<string, string | { types: string }>,
).flatMap((target) => (typeof target === "string" ? [] : [target.types.replace(/^.*\/(\w+)\.d\.mts$/, "$1")]));

export const importName = (door: string) => (door === "index" ? "stateset-agents" : `stateset-agents/${door}`);

const fileOf = (door: string) => join(dist, `${door}.d.mts`);
const program = ts.createProgram(doors.map(fileOf), {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ["lib.es2023.d.ts"],
  types: ["node"],
  strict: true,
  skipLibCheck: true,
  noEmit: true,
});
const checker = program.getTypeChecker();
const printer = ts.createPrinter({ removeComments: true, newLine: ts.NewLineKind.LineFeed });

/** The symbols of a door by the names they are imported by. */
export const exportsOf = new Map(
  doors.map((door) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(fileOf(door))!)!;
    const symbols = checker.getExportsOfModule(module).map((symbol) => [symbol.name, origin(symbol)] as const);
    return [door, new Map(symbols.sort(([a], [b]) => (a < b ? -1 : 1)))] as const;
  }),
);

/** What each door shows, in their order: what an earlier one has shown is not shown again. */
export const surfaces = new Map<string, string>();
const known = new Set([...exportsOf.values()].flatMap((exported) => [...exported.values()]));
for (const door of doors) surfaces.set(door, surfaceOf(door));

/** Declarations of everything a door exports, then of what those name and nobody can import. */
function surfaceOf(door: string): string {
  const earlier = doors.slice(0, doors.indexOf(door));
  const lines: string[] = [];
  const shown: ts.Symbol[] = [];
  for (const [name, symbol] of exportsOf.get(door)!) {
    const home = earlier.find((other) => isSame(symbol, exportsOf.get(other)!.get(name)));
    if (home) lines.push(`export ${name} from "${importName(home)}"`);
    else {
      shown.push(symbol);
      lines.push(...declarationsOf(symbol, name));
    }
  }
  const hidden = reachedFrom(shown).map((symbol) => declarationsOf(symbol, plain(symbol.name)).join("\n"));
  return `${[`// ${importName(door)}: ${exportsOf.get(door)!.size} names`, ...lines, "", "// Named above, not importable", ...hidden.sort()].join("\n")}\n`;
}

/** Types in the signatures of a door's functions and classes that neither it nor the main door offers. */
export function missingTypes(door: string): string[] {
  // Of names that moved, the types may have moved too.
  const from = door === "compat" ? doors : [door, "index"];
  const offered = new Set(from.flatMap((other) => [...exportsOf.get(other)!.values()]));
  const found = new Set<string>();
  for (const [name, symbol] of exportsOf.get(door)!) {
    if (!(symbol.flags & ts.SymbolFlags.Value)) continue;
    for (const declaration of symbol.declarations ?? []) {
      for (const type of namedIn(declaration)) {
        if (type.flags & ts.SymbolFlags.Type && !offered.has(type)) found.add(`${name}: ${plain(type.name)}`);
      }
    }
  }
  return [...found].sort();
}

/** The same declaration, or one whose value has the same type: that is how /compat offers what moved. */
function isSame(symbol: ts.Symbol, other: ts.Symbol | undefined): boolean {
  if (symbol === other) return true;
  if (!symbol.valueDeclaration || !other?.valueDeclaration) return false;
  const [a, b] = [checker.getTypeOfSymbol(symbol), checker.getTypeOfSymbol(other)];
  return checker.isTypeAssignableTo(a, b) && checker.isTypeAssignableTo(b, a);
}

function declarationsOf(symbol: ts.Symbol, name: string): string[] {
  const texts = (symbol.declarations ?? []).map((declaration) => {
    const text = plain(printer.printNode(ts.EmitHint.Unspecified, declaration, declaration.getSourceFile()));
    return ts.isVariableDeclaration(declaration) ? `const ${text};` : text.replace(/^(export |declare )+/, "");
  });
  const own = plain(symbol.name);
  return [...new Set(texts)].map((text) => (own === name ? text : `${name} = ${text}`));
}

/** The bundler numbers names that two files share. */
function plain(text: string): string {
  return text.replace(/\$\d+\b/g, "");
}

/** What these name that is shown nowhere yet, and what that names. */
function reachedFrom(symbols: readonly ts.Symbol[]): ts.Symbol[] {
  const queue = [...symbols];
  for (const symbol of queue) {
    for (const named of (symbol.declarations ?? []).flatMap(namedIn)) {
      if (known.has(named)) continue;
      known.add(named);
      queue.push(named);
    }
  }
  return queue.slice(symbols.length);
}

/** What of this package a declaration names. */
function namedIn(declaration: ts.Node): ts.Symbol[] {
  const found: ts.Symbol[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && node !== (declaration as ts.NamedDeclaration).name) {
      const symbol = checker.getSymbolAtLocation(node);
      const target = symbol && origin(symbol);
      if (target?.declarations?.some(isTopLevel)) found.push(target);
    }
    ts.forEachChild(node, visit);
  };
  visit(declaration);
  return found;
}

function isTopLevel(declaration: ts.Declaration): boolean {
  const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
  const inFile = statement.parent !== undefined && ts.isSourceFile(statement.parent);
  return inFile && statement.getSourceFile().fileName.startsWith(dist.replaceAll("\\", "/"));
}

function origin(symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}
