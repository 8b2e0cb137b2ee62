import { Environment, type Template } from "@huggingface/jinja";
import { type Interpreted, interpret } from "./jinja/interpreter.ts";
import { FunctionValue, type Run, type Value } from "./jinja/library.ts";
import { foreignString, ownString, tracedString } from "./jinja/strings.ts";
import { holdsForeign } from "./traced-text.ts";

/** What every run of a template shares. Made once, because the library takes its time over each name. */
export function environmentWith(
  tokens: Readonly<Record<string, string>>,
  today: Date,
  refuse: (reason: string) => never,
): Environment {
  const environment = new Environment();
  const constants = { true: true, True: true, false: false, False: false, none: null, None: null, range };
  for (const [name, value] of Object.entries(constants)) environment.set(name, value);
  const date: Run = ([format]) => {
    const told = formatDate(today, String(format?.value));
    return format && holdsForeign(tracedString(format)) ? foreignString(told) : ownString(told);
  };
  setVariables(environment, {
    ...Object.fromEntries(Object.entries(tokens).map(([name, text]) => [name, ownString(text)])),
    strftime_now: new FunctionValue(date),
    raise_exception: new FunctionValue(([reason]) => refuse(String(reason?.value))),
  });
  return environment;
}

/** Template.render() without its own raise_exception and its clock. */
export function run(template: Template, common: Environment, variables: Readonly<Record<string, Value>>): Interpreted {
  const environment = new Environment(common);
  setVariables(environment, variables);
  return interpret(template.parsed, environment);
}

function setVariables(environment: Environment, variables: Readonly<Record<string, Value>>): void {
  for (const [name, value] of Object.entries(variables))
    environment.setVariable(name, value as ReturnType<Environment["set"]>);
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const length = Math.max(0, Math.ceil((to - from) / step));
  // Templates count messages; a longer range is a mistake or an attack.
  if (!(length <= 1_000_000)) throw new RangeError(`range(${from}, ${to}, ${step}) is too long`);
  return Array.from({ length }, (_, i) => from + i * step);
}

const months = "January February March April May June July August September October November December".split(" ");

/** The parts of strftime that templates use, in UTC and English whatever the machine is set to. */
function formatDate(date: Date, format: string): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const parts: Record<string, string> = {
    Y: String(date.getUTCFullYear()),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    B: months[date.getUTCMonth()]!,
    b: months[date.getUTCMonth()]!.slice(0, 3),
    H: two(date.getUTCHours()),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    "%": "%",
  };
  return format.replace(/%([YmdBbHMS%])/g, (_, part: string) => parts[part]!);
}
