/** A view that fails says what failed and where; what is around it stays. */
import { Component, type ComponentChildren } from "preact";
import { Text } from "./text.tsx";

interface Props {
  /** What it is a boundary of, for the words. */
  what: string;
  children: ComponentChildren;
}

export class Boundary extends Component<Props, { failed: Error | null }> {
  override state = { failed: null as Error | null };

  static override getDerivedStateFromError(error: unknown) {
    return { failed: error instanceof Error ? error : new Error(String(error)) };
  }

  override render({ what, children }: Props, { failed }: { failed: Error | null }) {
    if (!failed) return children;
    return (
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
        <button type="button" class="button" onClick={() => this.setState({ failed: null })}>
          Try again
        </button>
      </div>
    );
  }
}
