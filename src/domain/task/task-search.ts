import { LOGIN } from "../account/account.ts";
import { HOST } from "../address/host-name.ts";
import { instantSeenFrom, timeText } from "../clock/time.ts";
import { parseText, textRule, type Rule } from "../rule.ts";
import type { DeliveryState } from "../webhook/delivery.ts";
import { TAG, TASK_ID, TASK_STATES, type TaskState } from "./task.ts";

/**
 * A task's state, or a part of one: `ready` is finished and not collected; `waiting` is queued and may run now;
 * `delayed` is queued and starts later.
 */
export type SearchedState = TaskState | "ready" | "waiting" | "delayed";

/** The state of a webhook in a search. `retrying` failed and is being retried. */
export type SearchedDelivery = DeliveryState | "waiting" | "retrying";

/** The conditions of a search; null is any, and all must hold. */
export interface TaskSearch {
  readonly id: string | null;
  readonly login: string | null;
  readonly states: readonly SearchedState[] | null;
  /** One of its webhooks is in one of these states; with a host, the webhook to that host is. */
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

/** Finds everything. */
export const ANY_TASK: TaskSearch = {
  id: null,
  login: null,
  states: null,
  deliveries: null,
  type: null,
  tag: null,
  host: null,
  code: null,
  createdAfter: null,
  createdBefore: null,
};

/** Every state that can be searched for, in the order in which {@link formatTaskSearch} writes them. */
export const SEARCHED_STATES: readonly SearchedState[] = [
  ...TASK_STATES,
  ...(["ready", "waiting", "delayed"] as const),
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

/** The result of {@link parseTaskSearch}; `problem` is a sentence that tells how to fix the text. */
export type ParsedTaskSearch = { readonly search: TaskSearch } | { readonly problem: string };

/**
 * Reads a search: words between spaces, all of which must hold. `NAME:VALUE` is one of {@link FIELDS}; a bare UUID is
 * an id, any other bare word a tag. Text in double quotes is one value, with \" and \\ inside. Times are RFC 3339, a
 * day, or an age before `now`: 30m, 2h, 7d.
 */
export function parseTaskSearch(text: string, now: number): ParsedTaskSearch {
  const words = splitWords(text);
  if ("problem" in words) return words;
  const rules = rulesAt(now);
  let search = ANY_TASK;
  const given = new Set<keyof TaskSearch>();
  for (const word of words.words) {
    const { value, shown } = word;
    const name = word.name ?? (TASK_ID.parse(value).kind === "value" ? "id" : "tag");
    if (!isSearchName(name)) return { problem: unreadable(shown, unknownName(name, value)) };
    const parsed = parseText<unknown>(rules[name], value);
    if (parsed.kind === "fault") {
      return { problem: unreadable(shown, `it takes ${rules[name].takes}`) };
    }
    const field = FIELDS[name];
    if (given.has(field)) return { problem: twice(shown, field) };
    given.add(field);
    search = { ...search, [field]: parsed.value };
  }
  return { search };
}

/**
 * Writes a search as {@link parseTaskSearch} reads it. Times are written out, so that it means the same at any time.
 * Each search has one text.
 */
export function formatTaskSearch(search: TaskSearch): string {
  const { id, login, states, deliveries, type, tag, host, code } = search;
  const parts: readonly (readonly [name: SearchName, value: string | null])[] = [
    ["id", id],
    ["account", login],
    ["state", states === null ? null : inOrder(SEARCHED_STATES, states).join(",")],
    ["delivery", deliveries === null ? null : inOrder(SEARCHED_DELIVERIES, deliveries).join(",")],
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

/** The meaning of the words of each name, in the order in which they are written. */
const FIELDS = {
  id: "id",
  account: "login",
  state: "states",
  delivery: "deliveries",
  type: "type",
  tag: "tag",
  host: "host",
  code: "code",
  after: "createdAfter",
  before: "createdBefore",
} as const satisfies Readonly<Record<string, keyof TaskSearch>>;

type SearchName = keyof typeof FIELDS;

function isSearchName(name: string): name is SearchName {
  return Object.hasOwn(FIELDS, name);
}

type SearchRules = {
  readonly [Name in SearchName]: Rule<NonNullable<TaskSearch[(typeof FIELDS)[Name]]>>;
};

function rulesAt(now: number): SearchRules {
  const time = instantSeenFrom(now);
  return { ...RULES, after: time, before: time };
}

const RULES = {
  id: TASK_ID,
  account: LOGIN,
  state: someOf(SEARCHED_STATES),
  delivery: someOf(SEARCHED_DELIVERIES),
  // A refused task keeps what was posted as its type.
  type: word("the name of a type", (text) => (text === "" ? null : text)),
  tag: TAG,
  host: HOST,
  code: word("a status code of five digits, such as 50010", (text) =>
    /^[1-9]\d{4}$/.test(text) ? Number(text) : null,
  ),
};

function word<T>(takes: string, read: (text: string) => T | null): Rule<T> {
  return textRule({ takes, hint: "TEXT", schema: { type: "string" }, read });
}

/** Some of these words, each once and in their order; upper and lower case are the same. */
function someOf<Item extends string>(known: readonly Item[]): Rule<readonly Item[]> {
  return word(`${known.join(", ")}, or several of them with commas between`, (text) => {
    const given = text.toLowerCase().split(",");
    return given.every((each) => known.some((item) => item === each))
      ? inOrder(known, given)
      : null;
  });
}

interface Word {
  /** Null for a bare word. */
  readonly name: string | null;
  readonly value: string;
  /** The word as it was written, shortened. */
  readonly shown: string;
}

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

/** The end of a word: a space outside its quotes. Inside, a backslash takes the next character with it. */
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

/** Null when quotes do not hold the whole value. */
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

function inOrder<Item extends string>(
  order: readonly Item[],
  given: readonly string[],
): readonly Item[] {
  return order.filter((each) => given.includes(each));
}

function unknownName(name: string, value: string): string {
  const tag = quotedWhereNeeded(`${name}:${value}`);
  return `'${name}' is not known; known are ${Object.keys(FIELDS).join(", ")}, and a tag with a colon is written tag:${tag}`;
}

function timeWord(time: number | null): string | null {
  return time === null ? null : timeText(time);
}

function twice(shown: string, field: keyof TaskSearch): string {
  const mend =
    field === "tag"
      ? 'a task has one tag; write a tag with spaces in quotes, such as tag:"a b"'
      : "the same is asked for twice; give it once, several states with commas between";
  return `The search is not clear at ${shown}: ${mend}.`;
}

function unreadable(shown: string, reason: string): string {
  return `The search cannot be read at ${shown}: ${reason}.`;
}

function shorten(raw: string): string {
  const head = raw.length <= SHOWN_LENGTH_MAX ? raw : `${raw.slice(0, SHOWN_LENGTH_MAX)}…`;
  return `'${head.toWellFormed()}'`;
}
