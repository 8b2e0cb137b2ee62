/** Tables, films and events, by tools as task-oriented dialogues have them: the starter model has met these. Tools obey; the policy is for the agent to keep. */
import type { TaskTool } from "../../task/task-tool.ts";
import { dateOf, timeOf } from "./when.ts";

export interface Restaurant {
  restaurant_name: string;
  city: string;
  cuisine: string;
  price_range: string;
  takes_reservations: string;
}

export interface Movie {
  title: string;
  genre: string;
  location: string;
  show_time: string;
}

export interface CityEvent {
  event_name: string;
  category: string;
  city: string;
  date: string;
  sold_out: string;
}

export interface Town {
  restaurants: readonly Restaurant[];
  movies: readonly Movie[];
  events: readonly CityEvent[];
  bookings: readonly Readonly<Record<string, string>>[];
  tickets: readonly Readonly<Record<string, string>>[];
}

type Arguments = Readonly<Record<string, string | undefined>>;

const takes = (required: readonly string[], optional: readonly string[] = []) => ({
  type: "object",
  properties: Object.fromEntries([...required, ...optional].map((name) => [name, { type: "string" }])),
  required,
});
const same = (a: string, b: string | undefined) => b === undefined || a.toLowerCase() === b.toLowerCase().trim();
const found = (results: readonly object[]) => ({ result: { count: results.length, results } });

/** Those that have all that was asked for. */
function search<T extends object>(
  all: readonly T[],
  args: Arguments,
  hidden: readonly string[] = [],
): { result: unknown } {
  const fits = (one: T) =>
    Object.entries(args).every(([key, wanted]) => same(String(one[key as keyof T] ?? ""), wanted));
  const shown = (one: T) => Object.fromEntries(Object.entries(one).filter(([key]) => !hidden.includes(key)));
  return found(all.filter(fits).map(shown));
}

const findRestaurants = (hidden: readonly string[]): TaskTool<Town> => ({
  name: "FindRestaurants",
  parameters: takes(["city"], ["cuisine", "price_range"]),
  run: ({ restaurants }, args) => search(restaurants, args, hidden),
});

/** On the first level it refuses by itself what cannot be booked. */
const reserveRestaurant = (refuses: boolean): TaskTool<Town> => ({
  name: "ReserveRestaurant",
  parameters: takes(["restaurant_name", "date", "time", "party_size"], ["city"]),
  run: (town, { restaurant_name, city, date, time, party_size }) => {
    const at = town.restaurants.find((one) => same(one.restaurant_name, restaurant_name) && same(one.city, city));
    const [day, hour] = [dateOf(date), timeOf(time)];
    if (!at) return { result: { error: "There is no such restaurant." } };
    if (!day || !hour) return { result: { error: "Write the date as 2019-03-08 and the time as 19:00." } };
    if (refuses && at.takes_reservations === "False") return { result: { error: "No table is free at that time." } };
    const booking = { restaurant_name: at.restaurant_name, city: at.city, date: day, time: hour, party_size };
    return { state: { ...town, bookings: [...town.bookings, booking] }, ...found([booking]) };
  },
});

const findMovies: TaskTool<Town> = {
  name: "FindMovies",
  parameters: takes(["genre", "location"]),
  run: ({ movies }, args) => {
    const fits = movies.filter((one) => same(one.genre, args.genre) && same(one.location, args.location));
    return found(fits.map(({ show_time: _, ...shown }) => shown));
  },
};

const getTimes: TaskTool<Town> = {
  name: "GetTimesForMovie",
  parameters: takes(["movie_name", "location"]),
  run: ({ movies }, { movie_name, location }) =>
    found(movies.filter((one) => same(one.title, movie_name) && same(one.location, location))),
};

const findEvents: TaskTool<Town> = {
  name: "FindEvents",
  parameters: takes(["category", "city"]),
  run: ({ events }, args) => search(events, args),
};

const buyTickets: TaskTool<Town> = {
  name: "BuyEventTickets",
  parameters: takes(["event_name", "number_of_tickets"], ["city", "date"]),
  run: (town, { event_name, number_of_tickets }) => {
    const event = town.events.find((one) => same(one.event_name, event_name));
    if (!event) return { result: { error: "There is no such event." } };
    const ticket = { event_name: event.event_name, date: event.date, number_of_tickets };
    return { state: { ...town, tickets: [...town.tickets, ticket] }, ...found([ticket]) };
  },
};

export function bookingTools(level: number): TaskTool<Town>[] {
  if (level === 1) return [findRestaurants(["takes_reservations"]), reserveRestaurant(true)];
  const tables = [findRestaurants([]), reserveRestaurant(false)];
  return level === 2 ? [...tables, findMovies, getTimes] : [...tables, findEvents, buyTickets];
}
