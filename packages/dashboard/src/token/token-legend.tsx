/** What the colours of tokens say, with the numbers they reach to. */
import { buckets, className } from "./colours.ts";
import "./install-colours.ts";
import { type Quantity, type Reach, ticksOf } from "./quantity.ts";
import "./token.css";

export function TokenLegend({ quantity, reach, of }: { quantity: Quantity; reach: Reach; of: string }) {
  const bar = Array.from({ length: buckets }, (_, i) => (quantity.inverted ? buckets - 1 - i : i));
  return (
    <figure class="token-legend" title={quantity.meaning}>
      <div class="token-legend-bar" aria-hidden="true">
        {bar.map((bucket) => (
          <span key={bucket} class={className(quantity.ramp, bucket)} />
        ))}
      </div>
      <div class="token-legend-ticks">
        {ticksOf(quantity, reach).map((tick, i) => (
          <span key={i}>
            {i === 0 && quantity.fixed?.low === undefined && "≤ "}
            {i === 2 && quantity.fixed?.high === undefined && "≥ "}
            {tick}
          </span>
        ))}
      </div>
      <figcaption>
        {quantity.meaning} Colours end where 2% of {of} lie beyond.
      </figcaption>
    </figure>
  );
}
