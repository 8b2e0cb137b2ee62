/** What ± means of the rewards of a group, wherever it stands: their standard deviation, divided by n − 1 as advantages take it. Null of fewer than two. */
export function spreadOf(rewards: readonly number[]): number | null {
  const n = rewards.length;
  if (n < 2) return null;
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / n;
  return Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / (n - 1));
}
