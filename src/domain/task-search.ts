import type { DeliveryState } from "./delivery.ts";
import { HOST, parseHost } from "./host-name.ts";
import type { TaskState } from "./task.ts";
import { parseTime, timeText } from "./time.ts";

/**
 * A task's state, or a part of one: `ready` is finished and not collected; `waiting` is queued and may run now, `delayed`
 * is queued and to start later.
 */
export type SearchedState = TaskState | "ready" | "waiting" | "delayed";

/** Where a webhook stands, as one looks for it. `retrying` failed and is tried again. */
export type SearchedDelivery = DeliveryState | "waiting" | "retrying";

/** What to look for; null is any, and all must hold. */
export interface TaskSearch {
  readonly id: string | null;
  readonly login: string | null;
  readonly states: readonly SearchedState[] | null;
  /** One of its webhooks stands so; with a host, it is that webhook which goes there. */
  readonly deliveries: readonly SearchedDelivery[] | null;
  readonly type: string | null;
  readonly tag: string | null;
  /** A host that one of its webhooks goes to, as deliveries are stored. */
  readonly host: string | null;
  readonly code: number | null;
  /** Inclusive. */
  readonly createdAfter: number | null;
  /** Exclusive. */
  readonly createdBefore: number | null;
}

/** Looks for everything. */
export const ANY_TASK: TaskSearch = {
  ...{ id: null, login: null, states: null, deliveries: null, type: null, tag: null, host: null },
  ...{ code: null, createdAfter: null, createdBefore: null },
};

/** Every state that can be looked for, in the order in which {@link formatTaskSearch} writes them. */
export const SEARCHED_STATES: readonly SearchedState[] = [
  "queued",
  "running",
  "completed",
  "failed",
  "cancelled",
  "ready",
  "waiting",
  "delayed",
];

/** The same of webhooks. */
export const SEARCHED_DELIVERIES: readonly SearchedDelivery[] = [
  "waiting",
  "scheduled",
  "in_flight",
  "retrying",
  "delivered",
  "given_up",
  "refused",
];

/** What {@link parseTaskSearch} makes of a text; `problem` is a sentence that says how to mend it. */
export type ParsedTaskSearch = { readonly search: TaskSearch } | { readonly problem: string };

/**
 * Reads a search: words between spaces, all of which must hold. `NAME:VALUE` is one of {@link NAMES}; a bare UUID is an
 * id, any other bare word a tag. What stands in double quotes is one value, with \" and \\ inside. Times are RFC 3339,
 * a day, or how long ago it is by `now`: 30m, 2h, 7d.
 */
export function parseTaskSearch(text: string, now: number): ParsedTaskSearch {
  const words = splitWords(text);
  if ("problem" in words) return words;
  let search = ANY_TASK;
  const given = new Set<keyof TaskSearch>();
  for (const word of words.words) {
    const part = parseWord(word, now);
    if ("problem" in part) return part;
    for (const field of fieldsOf(part)) {
      if (given.has(field)) return { problem: twice(word, field) };
      given.add(field);
    }
    search = { ...search, ...part };
  }
  return { search };
}

/**
 * Writes a search as {@link parseTaskSearch} reads it: the same at every time, since times are written out. One search
 * has one text.
 */
export function formatTaskSearch(search: TaskSearch): string {
  const { id, login, states, deliveries, type, tag, host, code } = search;
  const parts: readonly (readonly [name: SearchName, value: string | null])[] = [
    ["id", id],
    ["account", login],
    ["state", states === null ? null : inOrder(states, SEARCHED_STATES).join(",")],
    ["delivery", deliveries === null ? null : inOrder(deliveries, SEARCHED_DELIVERIES).join(",")],
    ["type", type],
    ["tag", tag],
    ["host", host],
    ["code", code === null ? null : String(code)],
    ["after", timeWord(search.createdAfter)],
    ["before", timeWord(search.createdBefore)],
  ];
  const words = parts.flatMap(([name, value]) =>
    value === null ? [] : [`${name}:${quotedWhereNeeded(value)}`],
  );
  return words.join(" ");
}

/** The names that words may have, in the order in which they are written. */
const NAMES = [
  "id",
  "account",
  "state",
  "delivery",
  "type",
  "tag",
  "host",
  "code",
  "after",
  "before",
] as const;

type SearchName = (typeof NAMES)[number];

/** A word of a search. */
interface Word {
  /** Null for a bare one. */
  readonly name: string | null;
  readonly value: string;
  /** As it was written, shortened. */
  readonly shown: string;
}

type Part = Partial<TaskSearch> | { readonly problem: string };

const SPACE = /\s/u;
const SHOWN_LENGTH_MAX = 40;

function splitWords(
  text: string,
): { readonly words: readonly Word[] } | { readonly problem: string } {
  const words: Word[] = [];
  let at = 0;
  while (at < text.length) {
    if (SPACE.test(text.charAt(at))) {
      at += 1;
      continue;
    }
    const end = endOfWord(text, at);
    const raw = text.slice(at, end);
    const word = toWord(raw);
    if (word === null) {
      return {
        problem: `The quotes in ${shorten(raw)} are not closed, or something follows them: write tag:"a b".`,
      };
    }
    words.push(word);
    at = end;
  }
  return { words };
}

/** Where a word ends: at a space outside its quotes. Inside, a backslash takes the next character with it. */
function endOfWord(text: string, from: number): number {
  let isQuoted = false;
  for (let at = from; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === "\\") at += 1;
    else if (!isQuoted && SPACE.test(character)) return at;
  }
  return text.length;
}

const BARE_NAME = /^([A-Za-z_]+):/;

/** Null where quotes stand that do not hold the whole value. */
function toWord(raw: string): Word | null {
  const name = BARE_NAME.exec(raw)?.[1]?.toLowerCase() ?? null;
  const rest = name === null ? raw : raw.slice(name.length + 1);
  const value = unquoted(rest);
  return value === null ? null : { name, value, shown: shorten(raw) };
}

const QUOTED = /^"((?:[^"\\]|\\.)*)"$/su;

function unquoted(text: string): string | null {
  if (!text.includes('"')) return text;
  const inner = QUOTED.exec(text)?.[1];
  return inner === undefined ? null : inner.replaceAll(/\\(.)/gsu, "$1");
}

const NEEDS_QUOTES = /["\s]/u;

function quotedWhereNeeded(value: string): string {
  if (value !== "" && !NEEDS_QUOTES.test(value)) return value;
  return `"${value.replaceAll(/["\\]/gu, String.raw`\$&`)}"`;
}

function parseWord({ name, value, shown }: Word, now: number): Part {
  switch (name) {
    case null:
      return UUID.test(value) ? { id: value.toLowerCase() } : toTag(value, shown);
    case "id":
      return UUID.test(value)
        ? { id: value.toLowerCase() }
        : fault(shown, "it takes the id of a task, a UUID");
    case "account":
      return value === "" ? fault(shown, "it takes a login") : { login: value };
    case "state":
      return toStates(value, shown);
    case "delivery":
      return toDeliveries(value, shown);
    case "type":
      return value === "" ? fault(shown, "it takes the name of a type") : { type: value };
    case "tag":
      return toTag(value, shown);
    case "host":
      return toHost(value, shown);
    case "code":
      return toCode(value, shown);
    case "after":
    case "before":
      return toTimeBound(name, { value, shown, now });
    default:
      return fault(
        shown,
        `'${name}' is not known; known are ${NAMES.join(", ")}, and a tag with a colon is written tag:${quotedWhereNeeded(`${name}:${value}`)}`,
      );
  }
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function toTag(value: string, shown: string): Part {
  return value.isWellFormed() ? { tag: value } : fault(shown, "it holds half a surrogate pair");
}

function toHost(value: string, shown: string): Part {
  const host = parseHost(value);
  return host === null ? fault(shown, `it takes ${HOST.takes}`) : { host };
}

function toStates(value: string, shown: string): Part {
  const states = toList(value, SEARCHED_STATES);
  return states === null ? fault(shown, listRule(SEARCHED_STATES)) : { states };
}

function toDeliveries(value: string, shown: string): Part {
  const deliveries = toList(value, SEARCHED_DELIVERIES);
  return deliveries === null ? fault(shown, listRule(SEARCHED_DELIVERIES)) : { deliveries };
}

/** The words of a list, each once and in their order; null where one is unknown. */
function toList<Item extends string>(
  value: string,
  known: readonly Item[],
): readonly Item[] | null {
  const given = value.toLowerCase().split(",");
  const items = known.filter((each) => given.includes(each));
  const isKnown = given.every((each) => known.some((item) => item === each));
  return isKnown ? items : null;
}

function listRule(known: readonly string[]): string {
  return `it takes ${known.join(", ")}, or several of them with commas between`;
}

function inOrder<Item>(items: readonly Item[], order: readonly Item[]): readonly Item[] {
  return order.filter((each) => items.includes(each));
}

function toCode(value: string, shown: string): Part {
  return /^[1-9]\d{4}$/.test(value)
    ? { code: Number(value) }
    : fault(shown, "it takes a status code of five digits, such as 50010");
}

const AGO = /^(\d{1,6})([smhdw])$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

const UNITS_MS: Readonly<Record<string, number>> = {
  ...{ s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 },
};

function toTimeBound(
  name: "after" | "before",
  { value, shown, now }: { readonly value: string; readonly shown: string; readonly now: number },
): Part {
  const time = toTime(value, now);
  if (time === null) {
    return fault(
      shown,
      "it takes an RFC 3339 time such as 2030-01-31T09:00:00Z, a day such as 2030-01-31, or how long ago: 30m, 2h, 7d",
    );
  }
  return name === "after" ? { createdAfter: time } : { createdBefore: time };
}

function toTime(value: string, now: number): number | null {
  if (DAY.test(value)) return parseTime(`${value}T00:00:00Z`);
  const [, count, unit] = AGO.exec(value) ?? [];
  if (count === undefined || unit === undefined) return parseTime(value);
  const time = now - Number(count) * (UNITS_MS[unit] ?? 0);
  // What RFC 3339 cannot write could not be formatted either.
  return time >= EARLIEST_MS ? time : null;
}

const EARLIEST_MS = Date.parse("0000-01-01T00:00:00.000Z");

function timeWord(time: number | null): string | null {
  return time === null ? null : timeText(time);
}

function fieldsOf(part: Partial<TaskSearch>): readonly (keyof TaskSearch)[] {
  // Parts are made above, of fields of a search and nothing else.
  return Object.keys(part) as (keyof TaskSearch)[];
}

function twice({ shown }: Word, field: keyof TaskSearch): string {
  const mend =
    field === "tag"
      ? 'a task has one tag; write a tag with spaces in quotes, such as tag:"a b"'
      : "the same is asked for twice; give it once, several states with commas between";
  return `The search is not clear at ${shown}: ${mend}.`;
}

function fault(shown: string, rule: string): { readonly problem: string } {
  return { problem: `The search cannot be read at ${shown}: ${rule}.` };
}

function shorten(raw: string): string {
  const head = raw.length <= SHOWN_LENGTH_MAX ? raw : `${raw.slice(0, SHOWN_LENGTH_MAX)}…`;
  return `'${head.toWellFormed()}'`;
}
