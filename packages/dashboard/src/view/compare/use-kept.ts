import { useRef } from "preact/hooks";

/** The last value under one name: what is shown stays while newer is on its way. */
export function useKept<T>(name: string, value: T | undefined): T | undefined {
  const kept = useRef<{ name: string; value: T | undefined }>({ name, value });
  if (kept.current.name !== name || value !== undefined) kept.current = { name, value };
  return kept.current.value;
}
