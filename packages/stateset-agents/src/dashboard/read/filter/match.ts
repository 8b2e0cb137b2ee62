/** Whether a run is one that a filter means. */
import { nearest } from "../../../suggest.ts";
import { type FieldSource, type FieldValue, fieldNames, fieldOf, isField } from "./fields.ts";
import { type Filter, filterError, type Operator } from "./parse.ts";

/** Refuses names that no run has. */
export function checkNames(filter: Filter | undefined, sources: readonly FieldSource[]): void {
  if (!filter || filter.kind === "word") return;
  if (filter.kind === "compare") {
    if (sources.length === 0 || isField(sources, filter.name)) return;
    throw filterError(filter.column, `there is no ${JSON.stringify(filter.name)}.${suggestion(filter.name, sources)}`);
  }
  for (const part of filter.parts) checkNames(part, sources);
}

export function suggestion(name: string, sources: readonly FieldSource[]): string {
  const near = nearest(name, fieldNames(sources));
  return near === undefined ? "" : ` Did you mean "${near}"?`;
}

export function matches(filter: Filter | undefined, source: FieldSource): boolean {
  if (!filter) return true;
  switch (filter.kind) {
    case "and":
      return filter.parts.every((part) => matches(part, source));
    case "or":
      return filter.parts.some((part) => matches(part, source));
    case "word": {
      const { id, key, model, algorithm, learner, tags, note } = source.row;
      const text = filter.text.toLowerCase();
      return [id, key, model, algorithm, learner, note, ...tags].some((own) => own?.toLowerCase().includes(text));
    }
    case "compare":
      return compares(fieldOf(source, filter.name) ?? null, filter.operator, filter.value);
  }
}

function compares(own: FieldValue, operator: Operator, value: string): boolean {
  if (Array.isArray(own)) {
    if (operator === "!=") return !own.some((one) => compares(one, "=", value));
    return own.some((one) => compares(one, operator, value));
  }
  // What a run does not have is unlike anything, and neither more nor less.
  if (own === null) return operator === "!=" && value !== "null";
  if (operator === "~") return String(own).toLowerCase().includes(value.toLowerCase());
  const number = value.trim() === "" ? Number.NaN : Number(value);
  const order = typeof own === "number" ? own - number : textOrder(String(own).toLowerCase(), value.toLowerCase());
  switch (operator) {
    case "=":
      return order === 0;
    case "!=":
      return order !== 0;
    case ">":
      return order > 0;
    case ">=":
      return order >= 0;
    case "<":
      return order < 0;
    case "<=":
      return order <= 0;
  }
}

const textOrder = (a: string, b: string) => (a === b ? 0 : a < b ? -1 : 1);

/** Smallest first; what has no value comes last, whichever way it goes. */
export function orderBy(name: string, descending: boolean): (a: FieldSource, b: FieldSource) => number {
  return (a, b) => {
    const [left, right] = [sortable(fieldOf(a, name)), sortable(fieldOf(b, name))];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    const order =
      typeof left === "number" && typeof right === "number" ? left - right : textOrder(String(left), String(right));
    return descending ? -order : order;
  };
}

function sortable(value: FieldValue | undefined): string | number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return Number.isNaN(value) ? null : value;
  return Array.isArray(value) ? value.join(" ").toLowerCase() : String(value).toLowerCase();
}
