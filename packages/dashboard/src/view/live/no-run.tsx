/** What Live shows where nothing happens. */
import { link } from "../../data/url.ts";

export function NoRun() {
  return (
    <section class="card live-empty">
      <h2>No run is training</h2>
      <p>Start one in the folder that is shown here; it appears by itself:</p>
      <pre>
        <code>npx stateset-agents demo</code>
      </pre>
      <p>
        Or look at <a href={link(["runs"])}>the runs that are there</a>.
      </p>
    </section>
  );
}
