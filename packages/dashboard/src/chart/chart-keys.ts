/** What keys do on a chart that has the focus: for the list that ? shows. */
export const chartKeys = [
  ["← →", "The cursor along the curves"],
  ["+ −", "In and out around it"],
  ["0", "All of the curve"],
  ["Escape", "No cursor"],
] as const;
