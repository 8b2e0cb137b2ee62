/** What runs are looked at for first: the reward, or the loss, or else whatever is known first. The page goes by it too. */
export const firstMetric = (known: readonly string[]): string | undefined =>
  ["reward", "loss"].find((name) => known.includes(name)) ?? known[0];
