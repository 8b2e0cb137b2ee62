/** Places of the page and how they are written after the # of an address. */
export interface Place {
  /** `#/run/demo` → ["run", "demo"] */
  path: readonly string[];
  query: Readonly<Record<string, string>>;
}

export function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** The address of a place, for `href`. What is undefined or empty is left out. */
export function link(path: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const text = new URLSearchParams(given).toString();
  return `#/${path.map(encoded).join("/")}${text && `?${text}`}`;
}

/** Half a character, as a damaged file may have in a name, is none that an address can hold. */
const encoded = (part: string) => encodeURIComponent(part.replace(/\p{Surrogate}/gu, "\ufffd"));

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
