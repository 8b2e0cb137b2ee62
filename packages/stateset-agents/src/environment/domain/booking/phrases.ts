/** Places, names and what people say: in training the first list, held out the second. */
import type { Split } from "../domain.ts";

export const cities: Split<string> = [
  ["San Jose", "Oakland", "Berkeley", "Palo Alto", "Fremont", "Napa"],
  ["San Francisco", "Sunnyvale", "Petaluma", "Santa Rosa", "Livermore", "Concord"],
];
export const cuisines: readonly string[] = ["Mexican", "Italian", "Chinese", "Indian", "Thai", "Japanese"];
export const genres: readonly string[] = ["Drama", "Comedy", "Horror", "Adventure"];
export const restaurants: Split<string> = [
  ["Casa Rosa", "Golden Spoon", "Blue Door", "Old Mill", "Green Garden", "Red Lantern", "Silver Fork", "Corner House"],
  ["Villa Luna", "Copper Pan", "White Swan", "Harbor View", "Olive Tree", "Jade Palace", "Happy Table", "Stone Oven"],
];
export const movies: Split<string> = [
  ["Night Train", "The Long Road", "Silent River", "Paper Moon", "Last Summer", "Broken Glass"],
  ["Winter Light", "The Lost Key", "Deep Water", "Iron Bridge", "First Snow", "Second Chance"],
];
export const events: Readonly<Record<"Music" | "Sports", Split<string>>> = {
  Music: [
    ["Spring Concert", "Jazz Night", "Rock Festival", "Choir Evening"],
    ["Opera Gala", "Folk Evening", "Piano Recital", "Blues Weekend"],
  ],
  Sports: [
    ["Lions Vs Bears", "Hawks Vs Kings", "City Marathon", "Bulls Vs Eagles"],
    ["Tigers Vs Wolves", "River Regatta", "Storm Vs Rangers", "Giants Vs Comets"],
  ],
};

export const find: Split<string> = [
  [
    "Find me a {cuisine} restaurant in {city}.",
    "I am looking for {cuisine} food in {city}.",
    "Is there a {cuisine} place in {city}?",
    "Can you find a {cuisine} restaurant in {city}?",
  ],
  [
    "I want to eat {cuisine} food in {city}.",
    "Which {cuisine} restaurant is there in {city}?",
    "Please look for a {cuisine} restaurant in {city}.",
    "I would like a {cuisine} place in {city}.",
  ],
];
export const findPriced: Split<string> = [
  ["Find me a {price} {cuisine} restaurant in {city}.", "I am looking for a {price} {cuisine} place in {city}."],
  ["Which {price} {cuisine} restaurant is there in {city}?", "I would like a {price} {cuisine} place in {city}."],
];
export const book: Split<string> = [
  [
    "Book a table for {people} at {name}, the {cuisine} restaurant in {city}, on {date} at {time}.",
    "I need a table for {people} at {name} ({cuisine}, {city}) on {date} at {time}.",
  ],
  [
    "Please reserve {name}, the {cuisine} place in {city}, for {people} people on {date} at {time}.",
    "On {date} at {time} I want a table for {people} at {name}. It is a {cuisine} restaurant in {city}.",
  ],
];
export const bookPlain: Split<string> = [
  [
    "Book a table for {people} at {name} in {city} on {date} at {time}.",
    "I need a table for {people} at {name} in {city} on {date} at {time}.",
  ],
  [
    "Please reserve {name} in {city} for {people} people on {date} at {time}.",
    "On {date} at {time} I want a table for {people} at {name} in {city}.",
  ],
];
export const bookNoTime: Split<string> = [
  [
    "Book a table for {people} at {name} in {city} on {date}.",
    "I need a table for {people} at {name} in {city} on {date}.",
  ],
  [
    "Please reserve {name} in {city} for {people} people on {date}.",
    "On {date} I want a table for {people} at {name} in {city}.",
  ],
];
export const bookLittle: Split<string> = [
  ["Book a table at {name} in {city} on {date}.", "I need a table at {name} in {city} on {date}."],
  ["Please reserve {name} in {city} for {date}.", "On {date} I want a table at {name} in {city}."],
];
export const bookFound: Split<string> = [
  [
    "Find a {price} {cuisine} restaurant in {city} and book a table for {people} on {date} at {time}.",
    "I need a table for {people} at a {price} {cuisine} place in {city} on {date} at {time}.",
  ],
  [
    "Please reserve a {price} {cuisine} restaurant in {city} for {people} people on {date} at {time}.",
    "On {date} at {time} I want a table for {people} at a {price} {cuisine} place in {city}.",
  ],
];
export const atTime: Split<string> = [
  ["At {time}.", "Make it {time}."],
  ["{time}, please.", "For {time}."],
];
export const forPeople: Split<string> = [
  ["For {people} people.", "We are {people}."],
  ["A table for {people}.", "{people} of us."],
];
export const film: Split<string> = [
  ["Is there a {genre} movie in {city}?", "Find me a {genre} movie in {city}."],
  ["Which {genre} movie is on in {city}?", "I want to see a {genre} movie in {city}."],
];
export const showTime: Split<string> = [
  ["When is {title} shown in {city}?", "At what time can I see {title} in {city}?"],
  ["What time does {title} start in {city}?", "I want to watch {title} in {city}. When is it?"],
];
export const event: Split<string> = [
  ["Find me a {category} event in {city}.", "Is there a {category} event in {city}?"],
  ["Which {category} event is there in {city}?", "I want to go to a {category} event in {city}."],
];
export const tickets: Split<string> = [
  [
    "Buy {people} tickets for {event}, the {category} event in {city}.",
    "I need {people} tickets for {event} ({category}, {city}).",
  ],
  [
    "Please get me {people} tickets for {event}. It is a {category} event in {city}.",
    "{people} tickets for {event} in {city}, please, under {category}.",
  ],
];
export const ticketsLittle: Split<string> = [
  ["Buy tickets for {event}, the {category} event in {city}.", "I need tickets for {event} ({category}, {city})."],
  [
    "Please get me tickets for {event}. It is a {category} event in {city}.",
    "Tickets for {event} in {city}, please, under {category}.",
  ],
];
