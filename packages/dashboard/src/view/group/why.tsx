/** Why each member has the advantage it has: the formula of the run's algorithm, and with the numbers of this group. */
import type { GroupData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { Text } from "../parts/text.tsx";

export function Why({ group: { why, members } }: { group: GroupData }) {
  if (!why) return null;
  const pair = members.some(({ side }) => side !== null);
  return (
    <section class="card stack" aria-label={pair ? "Why this margin" : "Why this advantage"}>
      <h2>{pair ? "Why this margin" : "Why this advantage"}</h2>
      <p class="formula">
        <Text value={why.formula} />
      </p>
      {why.lines.length > 0 && (
        <ul class="formula-lines">
          {why.lines.map((line, i) => (
            <li key={i}>
              <Text value={line} />
            </li>
          ))}
        </ul>
      )}
      {why.members.length > 0 && (
        <table class="table formula-table">
          <tbody>
            {why.members.map((line, i) => (
              <tr key={i}>
                <th scope="row">
                  <Text value={members[i]?.id ?? String(i)} />
                </th>
                <td class="mono">
                  <Text value={line} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {why.note && (
        <p class="faint">
          <Text value={why.note} />
        </p>
      )}
    </section>
  );
}
