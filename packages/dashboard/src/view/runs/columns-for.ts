/** Which columns are shown, and the grid they stand in. */
import type { Column } from "./columns.tsx";

type Place = Pick<Column, "id" | "width" | "from" | "always" | "onCards">;

/** As runs.css has it: below, each run is a card. */
const cardWidth = 680;

/** In the order of the table. `chosen`: ids, of the address; undefined: as many as there is room for. */
export function columnsFor<C extends Place>(
  all: readonly C[],
  chosen: readonly string[] | undefined,
  windowWidth: number,
): C[] {
  return all.filter(({ id, from = 0, always, onCards }) => {
    if (windowWidth <= cardWidth) return always || onCards;
    return always || (chosen ? chosen.includes(id) : windowWidth >= from);
  });
}

/** The box that chooses a run stands before them, tags and note after. */
export const gridOf = (shown: readonly Pick<Column, "width">[]) =>
  `20px ${shown.map(({ width }) => width).join(" ")} minmax(90px, 1.4fr)`;
