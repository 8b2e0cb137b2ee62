/**
 * Who writes and who reads each metric, found with the type checker: a use is a property of a value whose type comes from the table of
 * metrics, never a word that merely looks like one.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { metricFamilies, metrics } from "../packages/stateset-agents/src/run/metrics.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const library = "packages/stateset-agents/src/";
const tables = ["algorithm/metric-table.ts", "learning/metric-table.ts", "run/metrics.ts"].map((at) => library + at);
const names = Object.keys(metrics);
const families = Object.keys(metricFamilies);
/** To the checker a name that a family covers is one of the family. */
const apart = names.filter((name) => !families.some((family) => name.startsWith(family)));
const isAnyName = (list: readonly string[]) => apart.every((name) => list.includes(name));

export interface MetricUses {
  /** Modules by the name of a metric, or by the beginning of a family's names. */
  writers: Map<string, Set<string>>;
  readers: Map<string, Set<string>>;
}

export function metricUses(): MetricUses {
  const uses: MetricUses = { writers: new Map(), readers: new Map() };
  const blocks = documentationBlocks();
  const program = programOf(blocks);
  const checker = program.getTypeChecker();
  const see = seer(checker);
  for (const file of program.getSourceFiles()) {
    const path = relative(root, file.fileName);
    const module = blocks.has(file.fileName) ? path.replace(/#.*$/, "") : path;
    if (!isLookedAt(path)) continue;
    const visit = (node: ts.Node): void => {
      for (const { name, writes } of see(node)) {
        // What a benchmark puts together of metrics it read is no metric of a run.
        if (writes && !module.startsWith(library)) continue;
        const by = writes ? uses.writers : uses.readers;
        by.set(name, (by.get(name) ?? new Set()).add(module.replace(library, "")));
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  return uses;
}

interface Use {
  name: string;
  writes: boolean;
}

function seer(checker: ts.TypeChecker): (node: ts.Node) => Use[] {
  const inTable = (symbol: ts.Symbol | undefined): symbol is ts.Symbol =>
    symbol?.declarations?.some((at) => tables.includes(relative(root, at.getSourceFile().fileName))) === true;
  /** A number of this name, not the entry of the table that describes it. */
  const numberIn = (type: ts.Type, name: string): boolean => {
    // What an async function returns may be a promise as well.
    if (type.isUnion()) return type.types.some((part) => numberIn(part, name));
    const property = checker.getPropertyOfType(type, name);
    if (!inTable(property) || !names.includes(name)) return false;
    return parts(checker.getNonNullableType(checker.getTypeOfSymbol(property))).every((part) => isA(part, "Number"));
  };
  const holdsMetrics = (type: ts.Type) => numberIn(checker.getNonNullableType(type), "kl");
  const wanted = (type: ts.Type | undefined): string[] => {
    const all = type ? parts(type).flatMap(namesOf) : [];
    return isAnyName(all) ? [] : all;
  };

  return (node) => {
    if (ts.isPropertyAccessExpression(node)) {
      const type = checker.getNonNullableType(checker.getTypeAtLocation(node.expression));
      return numberIn(type, node.name.text) ? [{ name: node.name.text, writes: isTarget(node) }] : [];
    }
    if (ts.isElementAccessExpression(node)) {
      if (!holdsMetrics(checker.getTypeAtLocation(node.expression))) return [];
      const found = wanted(checker.getTypeAtLocation(node.argumentExpression));
      return found.map((name) => ({ name, writes: isTarget(node) }));
    }
    if (ts.isBindingElement(node) && ts.isObjectBindingPattern(node.parent) && !node.dotDotDotToken) {
      const name = (node.propertyName ?? node.name).getText();
      return numberIn(checker.getTypeAtLocation(node.parent), name) ? [{ name, writes: false }] : [];
    }
    if (ts.isObjectLiteralExpression(node)) {
      const type = checker.getContextualType(node);
      if (!type) return [];
      return node.properties.flatMap((property) => {
        const name = property.name && ts.isIdentifier(property.name) ? property.name.text : undefined;
        return name !== undefined && numberIn(type, name) ? [{ name, writes: true }] : [];
      });
    }
    if (ts.isStringLiteral(node)) return literalUse(checker, node);
    return [];
  };
}

/** A name that is handed to addMetric() is written; one that stands where any name of the table may stand is read. */
function literalUse(checker: ts.TypeChecker, node: ts.StringLiteral): Use[] {
  const { parent, text: name } = node;
  if (!names.includes(name) && !families.some((family) => name.startsWith(family))) return [];
  if (ts.isCallExpression(parent)) {
    const called = checker.getResolvedSignature(parent)?.declaration;
    const within = called && relative(root, called.getSourceFile().fileName);
    if (within === `${library}algorithm/metrics.ts`) return [{ name, writes: true }];
  }
  const type = checker.getContextualType(node);
  const allowed = type ? parts(type).flatMap(namesOf) : [];
  return isAnyName(allowed) ? [{ name, writes: false }] : [];
}

/** The metrics a type of strings names: "a" | "b", or by its beginning a family. */
function namesOf(type: ts.Type): string[] {
  if (type.isStringLiteral()) {
    const family = families.filter((one) => type.value.startsWith(one)).sort((a, b) => b.length - a.length)[0];
    return names.includes(type.value) ? [type.value] : family === undefined ? [] : [family];
  }
  if (!isA(type, "TemplateLiteral")) return [];
  const [beginning] = (type as ts.TemplateLiteralType).texts;
  return families.filter((family) => family === beginning);
}

function parts(type: ts.Type): ts.Type[] {
  return type.isUnion() ? type.types.flatMap(parts) : [type];
}

function isA(type: ts.Type, kind: "Number" | "TemplateLiteral"): boolean {
  return (type.flags & (kind === "Number" ? ts.TypeFlags.NumberLike : ts.TypeFlags.TemplateLiteral)) !== 0;
}

/** Whether it is assigned to, also with a `!` behind it. */
function isTarget(node: ts.Node): boolean {
  const { parent } = node;
  if (ts.isNonNullExpression(parent)) return isTarget(parent);
  if (!ts.isBinaryExpression(parent) || parent.left !== node) return false;
  const { kind } = parent.operatorToken;
  return kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment;
}

function isLookedAt(path: string): boolean {
  return /^(packages\/stateset-agents\/src|benchmarks|examples|docs|README)/.test(path) && !/\.test\.ts$/.test(path);
}

function programOf(blocks: ReadonlyMap<string, string>): ts.Program {
  const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
  const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists } = host;
  host.readFile = (path) => blocks.get(path) ?? readFile(path);
  host.fileExists = (path) => blocks.has(path) || fileExists(path);
  const own = fileNames.filter((path) => isLookedAt(relative(root, path)));
  return ts.createProgram([...own, ...blocks.keys()], options, host);
}

/** The code in the documentation, which docs.test.ts compiles, by the name of a file that is not there: "docs/guides/x.md#3.ts". */
function documentationBlocks(): Map<string, string> {
  const pages = (readdirSync(join(root, "docs"), { recursive: true }) as string[])
    .filter((path) => path.endsWith(".md"))
    .map((path) => join("docs", path));
  const found = ["README.md", ...pages.sort()].flatMap((page) => {
    const text = readFileSync(join(root, page), "utf8");
    return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code], i): [string, string] => [
      join(root, `${page}#${i}.ts`),
      `${code}\nexport {};\n`,
    ]);
  });
  return new Map(found);
}
