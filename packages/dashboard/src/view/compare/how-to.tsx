/** What Compare shows where no run was chosen. */
import { link } from "../../data/url.ts";

export function HowTo() {
  return (
    <section class="card">
      <h2>Choose runs to compare</h2>
      <p>
        Add them here one by one, or tick them in <a href={link(["runs"])}>the list of runs</a> and press Compare. Runs
        that differ by their seed alone can be folded into one curve with its interval, and held against another family.
      </p>
    </section>
  );
}
