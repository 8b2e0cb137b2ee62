/** The numbers of the token that is pointed at or gone to, to the last digit. */
import type { QuantityName } from "./quantity.ts";
import type { Selection } from "./selection.ts";
import type { Spelling } from "./spelling.ts";
import "./token.css";
import { linesOf } from "./token-numbers.ts";
import type { Tokens } from "./tokens.ts";

interface Props {
  id: string;
  tokens: Tokens;
  spelling: Spelling;
  selection: Selection;
  colour: QuantityName | undefined;
  leftOut: string | null;
}

export function TokenPanel({ id, tokens, spelling, selection, colour, leftOut }: Props) {
  const token = selection.shown.value;
  if (token === undefined || token >= tokens.count) {
    return (
      <section class="token-panel" id={id} aria-label="The token" tabIndex={0}>
        <p class="faint">
          Point at a token to see its numbers, or go to the text with <kbd>Tab</kbd> and along it with the arrow keys.
        </p>
      </section>
    );
  }
  return (
    <section class="token-panel" id={id} aria-label="The token" tabIndex={0} data-shown={token}>
      <p class="token-panel-text" dir="auto">
        {spelling.shown(token, true).text}
      </p>
      <dl>
        {linesOf(tokens, spelling, token, leftOut).map(({ name, text, quantity, words }) => (
          <div
            key={name}
            class={quantity !== undefined && quantity === colour ? "in-colour" : undefined}
            data-name={name}
          >
            <dt>{name}</dt>
            <dd class={words && "words"}>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
