/** The number of steps that the command line names, or another. */
export function stepsOr(otherwise: number): number {
  const [, , given = String(otherwise)] = process.argv;
  if (/^[1-9]\d*$/.test(given)) return Number(given);
  console.error(`"${given}" is no number of steps. Give a whole number, such as ${otherwise}.`);
  process.exit(2);
}
