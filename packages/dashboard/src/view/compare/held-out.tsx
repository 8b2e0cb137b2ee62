/** What runs reached on what was held out, and which of two is better. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { link } from "../../data/url.ts";
import { Dumbbell } from "../evaluation/dumbbell.tsx";
import { scaleOf } from "../evaluation/scale.ts";
import { estimate } from "../parts/number.ts";
import { type HeldOutGroup, heldOutGroups } from "./held-out-groups.ts";
import { orderedPairs, pairSaid } from "./pair-words.ts";
import { RunName } from "./run-name.tsx";

const none = { mean: null, count: 0 };

interface Props {
  data: CompareData;
  colours: ReadonlyMap<string, number>;
}

export function HeldOut({ data, colours }: Props) {
  const groups = heldOutGroups(data.heldOut);
  const measured = groups.reduce((sum, { runs }) => sum + runs.length, 0);
  return (
    <section class="card" aria-labelledby="held-out">
      <h2 id="held-out">Held out, before and after</h2>
      {measured === 0 && <p class="faint">None of these runs was evaluated on anything that was held out.</p>}
      {groups.map((group) => (
        <GroupTable key={group.words} group={group} colours={colours} />
      ))}
      {measured > 1 && data.pairs.length === 0 && (
        <p class="faint">No two of them were measured on scenarios, so none can be called better.</p>
      )}
      {data.pairs.length > 0 && (
        <>
          <h3>After, pair by pair, over the scenarios both have</h3>
          <ul class="compare-pairs">
            {orderedPairs(data.pairs).map((pair) => {
              const { subject, than, words, outcome } = pairSaid(pair);
              return (
                <li key={`${pair.a} ${pair.b}`}>
                  <RunName name={subject} colour={colours.get(subject)} />
                  <span class="faint"> against </span>
                  <RunName name={than} colour={colours.get(than)} />: <span class={`change-${outcome}`}>{words}</span>
                </li>
              );
            })}
          </ul>
        </>
      )}
    </section>
  );
}

/** Runs of one metric, on one scale: a loss beside a reward would say nothing. */
function GroupTable({ group, colours }: { group: HeldOutGroup; colours: Props["colours"] }) {
  const { words, lowerIsBetter, runs } = group;
  const scale = scaleOf(runs.flatMap(({ before, after }) => [before ?? none, after ?? none]));
  return (
    <div class="wide" tabIndex={0} role="region" aria-label={`Before and after: ${words}`}>
      <table class="table compare-held-out">
        <caption>{words}</caption>
        <thead>
          <tr>
            <th scope="col">run</th>
            <th scope="col">
              <span class="unseen">picture</span>
            </th>
            <th scope="col">before</th>
            <th scope="col">after</th>
          </tr>
        </thead>
        <tbody>
          {runs.map(({ key, before, after }) => (
            <tr key={key}>
              <th scope="row">
                <a href={link(["evaluation", key])}>
                  <RunName name={key} colour={colours.get(key)} />
                </a>
              </th>
              <td>
                <Dumbbell before={before ?? none} after={after ?? none} scale={scale} lowerIsBetter={lowerIsBetter} />
              </td>
              <td>{estimate(before)}</td>
              <td>{estimate(after)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
