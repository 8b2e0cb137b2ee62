/** A run's name with the colour of its curves. */
import { lineColour } from "../../chart/colours.ts";
import { Text } from "../parts/text.tsx";

export function RunName({ name, colour }: { name: string; colour: number | undefined }) {
  return (
    <span class="run-name">
      {colour !== undefined && <span class="swatch" style={{ background: lineColour(colour) }} />}
      <Text value={name} />
    </span>
  );
}
