/** Above a list that can be ordered and searched: how, for what, and how much of it is shown. The address has it all. */
import { setQuery } from "../../data/url.ts";
import { number, plural } from "./number.ts";
import { plain } from "./visible.ts";

interface Props<Order extends string> {
  /** What one of the list is called: "scenario". */
  of: string;
  orders: readonly Order[];
  names: Readonly<Record<Order, string>>;
  order: Order;
  text: string;
  shown: number;
  total: number;
}

export function ListFields<Order extends string>({ of, orders, names, order, text, shown, total }: Props<Order>) {
  const find = `Find a ${of}`;
  return (
    <>
      <SelectField
        label="Order"
        value={order}
        options={orders.map((name) => [name, names[name]])}
        choose={(chosen) => setQuery({ order: chosen })}
      />
      <label class="field">
        <span class="unseen">{find}</span>
        <input
          class="input"
          type="search"
          placeholder={find}
          value={text}
          onInput={({ currentTarget }) => setQuery({ text: currentTarget.value })}
        />
      </label>
      <span class="faint" role="status">
        {shown === total ? plural(total, of) : `${number(shown)} of ${number(total)}`}
      </span>
    </>
  );
}

interface SelectProps {
  label: string;
  value: string;
  /** Values, and what they are called. */
  options: readonly (readonly [string, string])[];
  choose(value: string): void;
}

export function SelectField({ label, value, options, choose }: SelectProps) {
  return (
    <label class="field">
      {label}
      <select class="select" value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {options.map(([one, name]) => (
          <option key={one} value={one}>
            {plain(name)}
          </option>
        ))}
      </select>
    </label>
  );
}
