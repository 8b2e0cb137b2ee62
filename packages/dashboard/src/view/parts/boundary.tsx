/** A view that fails says what failed and where; what is around it stays. */
import { Component, type ComponentChildren } from "preact";
import { Page } from "./page.tsx";
import { Text } from "./text.tsx";

interface Props {
  /** What it is a boundary of, for the words. */
  what: string;
  /** Where that is: another place is tried anew. */
  at?: string;
  /** The frame of the page is inside of it and is shown around the words. */
  framed?: boolean;
  children: ComponentChildren;
}

interface State {
  failed: Error | null;
  at: string | undefined;
}

export class Boundary extends Component<Props, State> {
  override state: State = { failed: null, at: undefined };

  static override getDerivedStateFromError(error: unknown) {
    return { failed: error instanceof Error ? error : new Error(String(error)) };
  }

  static override getDerivedStateFromProps({ at }: Props, state: State) {
    return at === state.at ? null : { at, failed: null };
  }

  override render({ what, framed, children }: Props, { failed }: State) {
    if (!failed) return children;
    const said = (
      <div class="problem" role="alert">
        <p>
          {what} could not be shown: <Text value={failed.message} />
        </p>
        <details>
          <summary>Where</summary>
          <pre>
            <Text value={failed.stack ?? "unknown"} />
          </pre>
        </details>
        {/* A file of the page that did not come is not asked for again by the page that asked; where it was stands in the address. */}
        <button
          type="button"
          class="button"
          onClick={() => (framed ? location.reload() : this.setState({ failed: null }))}
        >
          Try again
        </button>
      </div>
    );
    return framed ? (
      <Page title="Something failed" crumbs={[{ text: "something failed" }]}>
        {said}
      </Page>
    ) : (
      said
    );
  }
}
