/** Foreign text, harmless and visible: nothing in it turns the page around it, and nothing hides. */
import { visible } from "./visible.ts";

export function Text({ value }: { value: string }) {
  return (
    <bdi class="foreign">
      {visible(value).map(({ text, kind, title }) =>
        kind === undefined ? (
          text
        ) : (
          <span class={`odd odd-${kind}`} title={title}>
            {text}
          </span>
        ),
      )}
    </bdi>
  );
}
