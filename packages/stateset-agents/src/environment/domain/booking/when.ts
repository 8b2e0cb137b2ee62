/** Dates and times as people and models write them, in one form. All is in March 2019, as in the dialogues the starter model knows. */

/** "2019-03-08" of "March 8th", "8th of March", "the 8th", "2019-03-08"; undefined where it is no day. */
export function dateOf(text: string): string | undefined {
  const iso = /^\s*2019-03-(\d\d)\s*$/.exec(text);
  const day = iso?.[1] ?? /^\D*(\d{1,2})(?:st|nd|rd|th)?\D*$/i.exec(text)?.[1];
  const number = Number(day);
  return day !== undefined && number >= 1 && number <= 31 ? `2019-03-${String(number).padStart(2, "0")}` : undefined;
}

/** "19:00" of "7 pm", "7:00 pm", "19:00"; undefined where it is no time. */
export function timeOf(text: string): string | undefined {
  const found = /^\s*(\d{1,2})(?::(\d\d))?\s*(am|pm)?\s*$/i.exec(text);
  if (!found) return undefined;
  const [, hours, minutes = "00", half] = found;
  const hour = (Number(hours) % (half ? 12 : 24)) + (half?.toLowerCase() === "pm" ? 12 : 0);
  return Number(hours) <= 24 && Number(minutes) < 60 ? `${String(hour).padStart(2, "0")}:${minutes}` : undefined;
}

export function spokenDate(day: number): string {
  const end =
    day % 10 === 1 && day !== 11
      ? "st"
      : day % 10 === 2 && day !== 12
        ? "nd"
        : day % 10 === 3 && day !== 13
          ? "rd"
          : "th";
  return `March ${day}${end}`;
}

export function spokenTime(hour: number): string {
  return hour > 12 ? `${hour - 12} pm` : hour === 12 ? "12 pm" : `${hour} am`;
}
