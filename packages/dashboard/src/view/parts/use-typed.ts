/** A field whose text goes into the address once nobody types any more. */
import { useEffect, useRef, useState } from "preact/hooks";
import { setQuery } from "../../data/url.ts";

const pauseMs = 250;

/** `name`: of the query; `given`: what stands there. */
export function useTyped(name: string, given: string): { value: string; change(value: string): void } {
  const [value, setValue] = useState(given);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // Going back changes the address under the field.
  useEffect(() => {
    if (value.trim() !== given) setValue(given);
  }, [given]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    value,
    change(now) {
      setValue(now);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setQuery({ [name]: now.trim() || undefined }), pauseMs);
    },
  };
}
