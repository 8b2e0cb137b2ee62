/**
 * Tables, films and events in a town, by tools the starter model has met in dialogues. Level 1: one restaurant to find or to book. Level 2: to be
 * looked up before it is booked, and films. Level 3: events, and two wishes in one conversation.
 */
import type { UserFact } from "../../user/profile.ts";
import {
  claimsOf,
  type DomainTask,
  type Draw,
  defineDomain,
  fill,
  refusals,
  type SolutionStep,
  type TaskClass,
} from "../domain.ts";
import * as phrases from "./phrases.ts";
import { bookingTools, type Restaurant, type Town } from "./tools.ts";
import { dateOf, spokenDate, spokenTime, timeOf } from "./when.ts";

const lookFirst =
  "Look a restaurant up before you book it. Where takes_reservations is False do not book: say that you cannot.";
const policies: Record<number, string> = {
  1: "Book the table that is asked for. If there is none, say that you cannot book it.",
  2: lookFirst,
  3: `${lookFirst} Look an event up before you buy tickets. Where sold_out is True do not buy: say that you cannot.`,
};

const booked = ["booked", "reserved", "reservation", "booking", "confirmed"];
const bought = ["bought", "tickets", "purchased", "booked"];
const none = ["no table", "not available", "unavailable", "not free", "no tables", "full", "another time"];
const claims = [
  ...claimsOf("booked", "reserved", "confirmed", "bought", "purchased"),
  ...["reservation is done", "reservation is made", "successfully made"],
];
const call = (name: string, args: Record<string, string>): SolutionStep => ({ call: name, arguments: args });

/** A town with one thing that is meant, and others that could be taken for it. */
class World {
  readonly city: string;
  readonly elsewhere: string;
  readonly cuisine: string;
  readonly names: string[];
  readonly films: string[];
  readonly shows: string[];
  readonly genre: string;
  readonly category: string;
  readonly day: number;
  readonly about: Record<string, string>;
  readonly prices: string[];

  constructor(draw: Draw) {
    const { random } = draw;
    [this.city, this.elsewhere] = draw.some(phrases.cities, 2) as [string, string];
    this.names = draw.some(phrases.restaurants, 5);
    this.films = draw.some(phrases.movies, 4);
    this.cuisine = draw.one(phrases.cuisines);
    this.genre = draw.one(phrases.genres);
    this.category = draw.one(["Music", "Sports"]);
    const { Music, Sports } = phrases.events;
    const [own, other] = this.category === "Music" ? [Music, Sports] : [Sports, Music];
    this.shows = [draw.of(own), ...draw.some(other, 3)];
    this.day = 2 + random.below(28);
    this.prices = random.shuffled(["cheap", "moderate", "expensive"]);
    this.about = {
      ...{ city: this.city, cuisine: this.cuisine, name: this.names[0]!, price: this.prices[0]! },
      ...{ title: this.films[0]!, genre: this.genre, event: this.shows[0]!, category: this.category },
      ...{ date: spokenDate(this.day), time: spokenTime(17 + random.below(5)), people: String(2 + random.below(7)) },
    };
  }

  /** The restaurant that is meant, and whether it can be booked. Where prices matter there is another like it. */
  town(draw: Draw, { open = true, priced = false, soldOut = false } = {}): Town {
    const { city, elsewhere, cuisine, names, films, shows } = this;
    const otherCuisine = phrases.cuisines.find((one) => one !== cuisine)!;
    const restaurant = (i: number, more: Partial<Restaurant>): Restaurant => ({
      ...{
        restaurant_name: names[i]!,
        city,
        cuisine,
        price_range: this.prices[i % 3]!,
        takes_reservations: "True",
        ...more,
      },
    });
    const restaurants = [
      restaurant(0, { takes_reservations: open ? "True" : "False" }),
      ...(priced ? [restaurant(1, {})] : []),
      restaurant(2, { cuisine: otherCuisine }),
      restaurant(3, { city: elsewhere }),
    ];
    const genres = draw.random.shuffled(phrases.genres.filter((one) => one !== this.genre));
    const movies = films.map((title, i) => ({
      title,
      genre: i === 0 ? this.genre : genres[i - 1]!,
      location: city,
      show_time: `${16 + i}:${i % 2 === 0 ? "30" : "45"}`,
    }));
    const otherCategory = this.category === "Music" ? "Sports" : "Music";
    const events = shows.map((event_name, i) => ({
      event_name,
      category: i === 0 ? this.category : otherCategory,
      city: i === 3 ? elsewhere : city,
      date: dateOf(String(((this.day + 3 * i) % 28) + 1))!,
      sold_out: i === 0 && soldOut ? "True" : "False",
    }));
    const mixed = draw.random.shuffled(restaurants);
    return { restaurants: mixed, movies: draw.random.shuffled(movies), events, bookings: [], tickets: [] };
  }

  get search(): Record<string, string> {
    return { city: this.city, cuisine: this.cuisine };
  }

  get booking(): Record<string, string> {
    const { name, date, time, people } = this.about as Record<string, string>;
    const when = { date: dateOf(date!)!, time: timeOf(time!)! };
    return { restaurant_name: name!, city: this.city, ...when, party_size: people! };
  }

  say(draw: Draw, phrase: Parameters<Draw["of"]>[0]): string {
    return fill(draw.of(phrase) as string, this.about);
  }
}

const fact = {
  time: (says: string): UserFact => ({ asked: ["time", "when", "what hour"], says }),
  people: (says: string): UserFact => ({
    asked: ["people", "many", "party", "guests", "persons", "size", "seats", "tickets"],
    says,
  }),
};

/** One restaurant: found, booked, not to be booked, or booked once the user has said what was missing. */
function table(draw: Draw, kind: TaskClass, { level, number }: { level: number; number: number }): DomainTask {
  const world = new World(draw);
  const { about, booking, names } = world;
  const name = names[0]!;
  const priced = level > 1;
  const looked = { tool: "FindRestaurants", arguments: world.search };
  const byPrice = priced && (kind === "lookup" || (kind === "act" && number % 2 === 0));
  const look = call("FindRestaurants", byPrice ? { ...world.search, price_range: about.price! } : world.search);
  if (kind === "lookup") {
    return {
      state: world.town(draw, { priced }),
      user: { goal: world.say(draw, priced ? phrases.findPriced : phrases.find) },
      expect: { calls: [looked], writes: [], said: [name] },
      forbid: { said: names.slice(1) },
      solution: [look, { say: `I found ${name} in ${world.city}.` }],
    };
  }
  const reserve = call("ReserveRestaurant", booking);
  if (kind === "refuse" && level === 1) {
    const tried = { tool: "ReserveRestaurant", arguments: { restaurant_name: name } };
    return {
      state: world.town(draw, { open: false }),
      user: { goal: world.say(draw, phrases.bookPlain) },
      expect: { calls: [tried], writes: [], said: [[...refusals, ...none]] },
      forbid: { said: claims },
      solution: [reserve, { say: `Sorry, I cannot book ${name}: no table is free at that time.` }],
    };
  }
  if (kind === "refuse") {
    return {
      state: world.town(draw, { open: false, priced }),
      user: { goal: world.say(draw, phrases.book) },
      expect: {
        calls: [looked],
        writes: [],
        said: [[...refusals, "does not take", "doesn't take", "no reservations"]],
      },
      forbid: { said: claims },
      solution: [look, { say: `Sorry, I cannot book it: ${name} takes no reservations.` }],
    };
  }
  const wanted = { state: { bookings: [booking] }, writes: [{ tool: "ReserveRestaurant" }], said: [booked] };
  // Of who asks for a name alone, nobody knows the cuisine.
  const inCity = { city: world.city };
  const confirmed = { say: `Your table at ${name} is booked.` };
  const state = world.town(draw, { priced });
  if (kind === "act") {
    if (!priced) {
      const goal = world.say(draw, phrases.bookPlain);
      return { state, user: { goal }, expect: wanted, solution: [reserve, confirmed] };
    }
    const goal = world.say(draw, byPrice ? phrases.bookFound : phrases.book);
    return { state, user: { goal }, expect: { ...wanted, calls: [looked] }, solution: [look, reserve, confirmed] };
  }
  const time = fact.time(world.say(draw, phrases.atTime));
  const people = fact.people(world.say(draw, phrases.forPeople));
  return {
    state,
    user: {
      goal: world.say(draw, priced ? phrases.bookLittle : phrases.bookNoTime),
      facts: priced ? [time, people] : [time],
    },
    expect: priced ? { ...wanted, calls: [{ tool: "FindRestaurants", arguments: inCity }] } : wanted,
    solution: [
      { say: "What time would you like?" },
      ...(priced ? [{ say: "How many people will come?" }] : []),
      ...(priced ? [call("FindRestaurants", inCity)] : []),
      reserve,
      confirmed,
    ],
  };
}

/** A film, or when it is shown. */
function film(draw: Draw, number: number): DomainTask {
  const world = new World(draw);
  const { city, genre, films } = world;
  const state = world.town(draw);
  const others = films.slice(1);
  if (number % 2 === 0) {
    const args = { genre, location: city };
    return {
      state,
      user: { goal: world.say(draw, phrases.film) },
      expect: { calls: [{ tool: "FindMovies", arguments: args }], writes: [], said: [films[0]!] },
      forbid: { said: others },
      solution: [call("FindMovies", args), { say: `There is ${films[0]} in ${city}.` }],
    };
  }
  const args = { movie_name: films[0]!, location: city };
  return {
    state,
    user: { goal: world.say(draw, phrases.showTime) },
    expect: {
      calls: [{ tool: "GetTimesForMovie", arguments: args }],
      writes: [],
      said: [["16:30", "4:30", "4:30 pm"]],
    },
    forbid: { said: ["17:45", "18:30", "19:45", "5:45", "6:30", "7:45"] },
    solution: [call("GetTimesForMovie", args), { say: `${films[0]} is shown at 16:30.` }],
  };
}

/** An event; where something is bought, a table for the evening after it. */
function evening(draw: Draw, kind: TaskClass): DomainTask {
  const world = new World(draw);
  const { about, city, category, shows, names, booking } = world;
  const event = shows[0]!;
  const search = { category, city };
  const looked = { tool: "FindEvents", arguments: search };
  const look = call("FindEvents", search);
  const town = world.town(draw, { soldOut: kind === "refuse" });
  const { date } = town.events.find((one) => one.event_name === event)!;
  if (kind === "lookup") {
    const restaurant = call("FindRestaurants", world.search);
    return {
      state: town,
      user: { goal: world.say(draw, phrases.event), next: [world.say(draw, phrases.find)] },
      expect: {
        calls: [looked, { tool: "FindRestaurants", arguments: world.search }],
        writes: [],
        said: [event, names[0]!],
      },
      forbid: { said: [...shows.slice(1), ...names.slice(1)] },
      solution: [
        look,
        { say: `There is ${event} in ${city}.` },
        restaurant,
        { say: `I found ${names[0]} in ${city}.` },
      ],
    };
  }
  if (kind === "refuse") {
    return {
      state: town,
      user: { goal: world.say(draw, phrases.tickets) },
      expect: { calls: [looked], writes: [], said: [[...refusals, "sold out"]] },
      forbid: { said: claims },
      solution: [look, { say: `Sorry, I cannot buy them: ${event} is sold out.` }],
    };
  }
  const buy = call("BuyEventTickets", { event_name: event, number_of_tickets: about.people! });
  const tickets = [{ event_name: event, date, number_of_tickets: about.people! }];
  const got = { say: `You have ${about.people} tickets for ${event}.` };
  if (kind === "ask") {
    const many = fact.people(world.say(draw, phrases.forPeople));
    return {
      state: town,
      user: { goal: world.say(draw, phrases.ticketsLittle), facts: [many] },
      expect: { state: { tickets }, calls: [looked], writes: [{ tool: "BuyEventTickets" }], said: [bought] },
      solution: [{ say: "How many tickets do you need?" }, look, buy, got],
    };
  }
  const reserve = call("ReserveRestaurant", booking);
  const restaurant = call("FindRestaurants", world.search);
  return {
    state: town,
    user: { goal: world.say(draw, phrases.tickets), next: [world.say(draw, phrases.book)] },
    expect: {
      state: { tickets, bookings: [booking] },
      calls: [looked, { tool: "FindRestaurants", arguments: world.search }],
      writes: [{ tool: "BuyEventTickets" }, { tool: "ReserveRestaurant" }],
      said: [bought, booked],
    },
    solution: [look, buy, got, restaurant, reserve, { say: `Your table at ${names[0]} is booked.` }],
  };
}

/** Restaurants, films and events, with tools the starter model knows. */
export const booking = defineDomain({
  name: "booking",
  tools: bookingTools,
  policy: (level) => policies[level]!,
  task: (draw, kind, level, number) => {
    if (level === 3) return evening(draw, kind);
    if (level === 2 && kind === "lookup" && number % 2 === 1) return film(draw, (number - 1) / 2);
    return table(draw, kind, { level, number });
  },
});
