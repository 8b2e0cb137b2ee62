/** What is shown while there is nothing yet. It comes late on purpose: an answer that is quick makes nothing flicker. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <p class="loading" role="status">
      <span class="spinner" aria-hidden="true" />
      {what}…
    </p>
  );
}
