/** Numbers before and after, with what changed. */
import { number, signed } from "../parts/number.ts";
import { Text } from "../parts/text.tsx";
import type { PartChange } from "./course.ts";

export function PartTable({ title, parts }: { title: string; parts: readonly PartChange[] }) {
  if (parts.length === 0) return null;
  return (
    <section class="card evaluation-parts">
      <table class="table">
        <caption>{title}</caption>
        <thead>
          <tr>
            <th scope="col">name</th>
            <th scope="col" class="right">
              before
            </th>
            <th scope="col" class="right">
              after
            </th>
            <th scope="col" class="right">
              change
            </th>
          </tr>
        </thead>
        <tbody>
          {parts.map(({ name, before, after }) => (
            <tr key={name}>
              <th scope="row">
                <Text value={name} />
              </th>
              <td class="right">{number(before)}</td>
              <td class="right">{number(after)}</td>
              <td class="right">{before === null || after === null ? "–" : signed(after - before, 3)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
