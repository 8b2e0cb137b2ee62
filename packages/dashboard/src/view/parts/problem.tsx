/** What went wrong or could not be read, in place of it. */
import type { ProblemData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import type { ApiError } from "../../data/ask.ts";
import { link } from "../../data/url.ts";
import { plural } from "./number.ts";
import { Text } from "./text.tsx";

export function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <p>
        <Text value={error.message} />
      </p>
      {error.status === 404 && <a href={link(["runs"])}>All runs</a>}
      {retry && (error.status === 0 || error.status >= 500) && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** What of an answer could not be read; nothing where all of it could. */
export function Problems({ list }: { list: readonly ProblemData[] }) {
  if (list.length === 0) return null;
  const items = (
    <ul>
      {list.map(({ where, message }) => (
        <li>
          <code>
            <Text value={where} />
          </code>{" "}
          <Text value={message} />
        </li>
      ))}
    </ul>
  );
  return (
    <section class="problems" aria-label="What could not be read">
      {list.length <= 3 ? (
        items
      ) : (
        <details>
          <summary>{plural(list.length, "thing")} could not be read</summary>
          {items}
        </details>
      )}
    </section>
  );
}
