import { StatesetError } from "../error.ts";

export type Settings = Record<string, unknown>;

/** Settings with others put over them by path: `kl.coefficient`. What is undefined is left as it is. */
export function withSettings(settings: Readonly<Settings>, changes: Readonly<Settings>): Settings {
  const result = structuredClonePlain(settings);
  for (const [path, value] of Object.entries(changes)) {
    if (value !== undefined) setPath(result, path.split("."), value, path);
  }
  return result;
}

function setPath(target: Settings, [key, ...rest]: string[], value: unknown, whole: string): void {
  if (rest.length === 0) {
    target[key!] = value;
    return;
  }
  const inner = target[key!] ?? {};
  if (typeof inner !== "object")
    throw new StatesetError("INVALID_OPTION", `--set ${whole}: "${key}" is a single value, not a group of settings.`, {
      hint: `Write --set ${whole.slice(0, whole.length - rest.join(".").length - 1)}=<value>.`,
    });
  target[key!] = inner;
  setPath(inner as Settings, rest, value, whole);
}

/** Settings may hold an Algorithm object, which structuredClone refuses; only plain objects are copied. */
function structuredClonePlain(value: Readonly<Settings>): Settings {
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, isPlain(inner) ? structuredClonePlain(inner) : inner]),
  );
}

function isPlain(value: unknown): value is Settings {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.getPrototypeOf(value) === Object.prototype &&
    !("loss" in value)
  );
}
