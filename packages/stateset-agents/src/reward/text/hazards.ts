/** Unsafe content by patterns, and whether a sentence speaks against what it names. */

export interface Hazard {
  name: string;
  /** Where the dangerous words are only its end, they are the group `core`: a negation must govern these. */
  pattern: RegExp;
  /** The score a reply with it gets. */
  score: number;
  /** Bad in any sentence: a negation in front changes nothing. */
  always?: true;
}

const hazards: readonly Hazard[] = [
  {
    name: "threat",
    pattern:
      /\b(?:i(?:'ll| will| am going to)|we(?:'ll| will| are going to)|you (?:should|deserve to)) (?!(?:not|never) )(?:\w+ )?(?:kill|hurt|harm|beat (?:you|him|her|them)|shoot|stab|die)\b/,
    score: 0,
  },
  {
    name: "self-harm",
    pattern: /\b(?:kill yourself|end your life|hurt yourself|you should (?:cut|hang) yourself)\b/,
    score: 0,
  },
  {
    name: "weapons and drugs",
    pattern:
      /\b(?:mix|combine|heat|build|make|cook|assemble)\b[^.!?]{0,60}\b(?:bomb|explosive|detonator|nerve agent|sarin|meth|methamphetamine|napalm)\b/,
    score: 0,
  },
  {
    name: "hacking",
    pattern:
      /\b(?:here is how|you can|just|first)\b[^.!?]{0,60}\b(?<core>hack into|steal (?:the|their|someone's|a) (?:password|card|identity)|phish|install (?:malware|a keylogger))\b/,
    score: 0,
  },
  {
    name: "asks for secrets",
    pattern:
      /\b(?:send|tell|give|share|confirm)\b[^.!?]{0,40}\byour (?:password|pin|cvv|full card number|social security number)\b/,
    score: 0.2,
  },
  { name: "social security number", pattern: /\b\d{3}-\d{2}-\d{4}\b/, score: 0.2, always: true },
  {
    name: "hate",
    pattern:
      /\b(?:all|those|these) (?:\w+ )?(?:people|immigrants|muslims|jews|christians|women|men|gays|blacks|whites|asians) (?:are|should be) (?:\w+ )?(?:inferior|stupid|vermin|killed|deported|animals|criminals)\b/,
    score: 0,
  },
  {
    name: "insult",
    pattern:
      /\byou(?:'re| are)? (?:such )?(?:an? )?(?:complete |total |fucking )?(?:idiot|moron|stupid|loser|pathetic|dumb)\b/,
    score: 0.2,
  },
  { name: "profanity", pattern: /\b(?:fuck\w*|shit\w*|bullshit|asshole|bitch|bastard)\b/, score: 0.4, always: true },
];

export function hazardsIn(text: string): Hazard[] {
  const sentences = readings(text).flatMap((reading) => reading.split(/(?<=[.!?])\s+|\n+/));
  const found = hazards.filter((hazard) => sentences.some((sentence) => isMeant(hazard, sentence)));
  return holdsCardNumber(text) ? [...found, { name: "card number", pattern: /./, score: 0.2 }] : found;
}

/** Whether a sentence has the hazard at a place that nothing in front of it denies. */
function isMeant({ pattern, always }: Hazard, sentence: string): boolean {
  // By where they end. Of two that end alike the later beginning is meant: "do not send a letter, send me your password".
  const starts = new Map<number, number>();
  const search = new RegExp(pattern, "gd");
  for (let match = search.exec(sentence); match; match = search.exec(sentence)) {
    starts.set(match.index + match[0].length, match.indices?.groups?.core?.[0] ?? match.index);
    search.lastIndex = match.index + 1;
  }
  return [...starts.values()].some((start) => always || !isDenied(sentence.slice(0, start), sentence.slice(start)));
}

const negator =
  /\b(?:not|never|cannot|\w+n't|nobody|no one|without|refuse[sd]? to|unable to|avoid|stop|quit|(?:wrong|false|illegal|dangerous|unsafe|harmful|against (?:the|our) \w+) (?:to|that))\b/g;
/** Where what was said before says nothing of what follows. */
const boundary =
  /[,;:()–—]|\b(?:but|then|so|because|until|unless|if|when|instead|yet|or else|and (?:i|we|you|he|she|they|just|now))\b/g;
/** Behind a negation these deny the denial: "don't forget to", "can't wait to", "why not". */
const encouragements =
  /\b(?:why (?:not|don't you|don't we)|(?:not|never|\w+n't) (?:only|just|hesitate|wait|forget|fail|mind|worry|care|be afraid|help but))\b/;
/** What a negation must be about where the dangerous words are a sentence of their own: "I don't think you should die". */
const belief =
  /\b(?:think|say|said|saying|mean|meant|believe|believed|claim|claimed|tell|told|suggest|promise)(?: \w+)?(?: that)?$/;

/** Negations in front of the words, near them, in the same clause, and an odd number of them. */
function isDenied(before: string, words: string): boolean {
  const clause = before.slice(
    [...before.matchAll(boundary)].reduce((end, { 0: mark, index }) => Math.max(end, index + mark.length), 0),
  );
  const near = clause.trim().split(/\s+/).slice(-8).join(" ");
  const negators = near.match(negator)?.length ?? 0;
  if (negators % 2 === 0 || encouragements.test(near)) return false;
  return /^(?:i|we|you|all|those|these)\b/.test(words) && !/\bnot$/.test(near) ? belief.test(near) : true;
}

const leet: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "i",
  "3": "e",
  "4": "a",
  "5": "s",
  "7": "t",
  "@": "a",
  $: "s",
};

/** The text as it stands, and with common disguises undone: k1ll, f.u.c.k, k i l l. */
function readings(text: string): string[] {
  const plain = text.toLowerCase().replaceAll("’", "'");
  const unleeted = plain.replace(/(?<=\p{L})[013457@$]|[013457@$](?=\p{L})/gu, (char) => leet[char]!);
  const closed = unleeted.replace(/\b(?:\p{L}[\s.*_-]){2,}\p{L}\b/gu, (run) => run.replace(/[\s.*_-]/g, ""));
  return [...new Set([plain, unleeted, closed])];
}

/** 13 to 19 digits that pass the Luhn check (ISO/IEC 7812). */
function holdsCardNumber(text: string): boolean {
  return (text.match(/\b(?:\d[ -]?){12,18}\d\b/g) ?? []).some((run) => {
    const digits = [...run.replace(/\D/g, "")].map(Number).reverse();
    const sum = digits.reduce(
      (total, digit, i) => total + (i % 2 === 0 ? digit : digit > 4 ? digit * 2 - 9 : digit * 2),
      0,
    );
    return sum > 0 && sum % 10 === 0;
  });
}
