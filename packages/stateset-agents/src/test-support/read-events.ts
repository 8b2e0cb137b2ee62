/** Reads server-sent events as they come, in pieces of any size: gives what each event that has ended says. Comments say nothing. */
export function createEventReader(): (piece: string) => string[] {
  let rest = "";
  return (piece) => {
    const parts = (rest + piece).split("\n\n");
    rest = parts.pop()!;
    return parts.filter((part) => part.startsWith("data: ")).map((part) => part.slice("data: ".length));
  };
}

/** The same of a stream that has ended. */
export function eventsOf(text: string): string[] {
  return createEventReader()(text);
}
