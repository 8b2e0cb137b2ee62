import { StatesetError } from "../../error.ts";

/** Names come from the file: quoted, and cut so that a hostile one cannot flood a terminal. */
export function quoted(name: string): string {
  const text = JSON.stringify(name);
  return text.length > 120 ? `${text.slice(0, 116)}…"` : text;
}

export function invalidModel(file: string, what: string, cause?: unknown): StatesetError {
  return new StatesetError("MODEL_INVALID", `${file}: ${what}.`, {
    hint: "The file is damaged, incomplete or no model; download or save it again.",
    cause,
  });
}
