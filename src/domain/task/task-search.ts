import { LOGIN } from "../account/account.ts";
import { HOST } from "../address/host-name.ts";
import { instantSeenFrom, timeText } from "../clock/time.ts";
import { parseText, textRule, type Rule } from "../rule.ts";
import type { DeliveryState } from "../webhook/delivery.ts";
import { TAG, TASK_ID, TASK_STATES, type TaskState } from "./task.ts";

/** `ready` is finished and not collected, `waiting` is queued and may run, `delayed` is queued and starts later. */
export type SearchedState = TaskState | "ready" | "waiting" | "delayed";

/** The state of a webhook in a search. `retrying` failed and is being retried. */
export type SearchedDelivery = DeliveryState | "waiting" | "retrying";

/** Every state that can be searched for, in the order in which {@link formatTaskSearch} writes them. */
export const SEARCHED_STATES: readonly SearchedState[] = [
  ...TASK_STATES,
  ...(["ready", "waiting", "delayed"] as const),
];

export const SEARCHED_DELIVERIES: readonly SearchedDelivery[] = [
  "waiting",
  "scheduled",
  "in_flight",
  "retrying",
  "delivered",
  "given_up",
  "refused",
];

interface Filter<Value> {
  /** The name before the colon. */
  readonly word: string;
  readonly ruleAt: (now: number) => Rule<Value>;
  /** Writes a value as the rule reads it. */
  readonly write: (value: Value) => string;
}

/** The filters of a search for tasks. The conditions of the stores have the same names. */
const FILTERS = {
  id: filter("id", TASK_ID),
  login: filter("account", LOGIN),
  states: someOf("state", SEARCHED_STATES),
  /** A webhook of the task is in a given state; with a host, the webhook to that host. */
  deliveries: someOf("delivery", SEARCHED_DELIVERIES),
  // A refused task keeps what was posted as its type.
  type: filter(
    "type",
    wordRule("the name of a type", (text) => (text === "" ? null : text)),
  ),
  tag: filter("tag", TAG),
  /** A host that one of its webhooks goes to, as deliveries are stored. */
  host: filter("host", HOST),
  code: filter(
    "code",
    wordRule("a status code of five digits, such as 50010", (text) =>
      /^[1-9]\d{4}$/.test(text) ? Number(text) : null,
    ),
  ),
  /** Inclusive. */
  createdAfter: time("after"),
  /** Exclusive. */
  createdBefore: time("before"),
};

type Field = keyof typeof FILTERS;

/** The conditions of a search; null is any, and all must hold. */
export type TaskSearch = {
  readonly [Name in Field]: Parameters<(typeof FILTERS)[Name]["write"]>[0] | null;
};

const FIELDS = Object.keys(FILTERS) as readonly Field[];

/** The words before the colons, in the order of the fields. */
export const SEARCH_WORDS: readonly string[] = FIELDS.map((field) => FILTERS[field].word);

export const ANY_TASK = Object.fromEntries(FIELDS.map((field) => [field, null])) as TaskSearch;

function filter<Value extends string | number>(word: string, rule: Rule<Value>): Filter<Value> {
  return { word, ruleAt: () => rule, write: String };
}

function time(word: string): Filter<number> {
  return { word, ruleAt: instantSeenFrom, write: timeText };
}

/** Some of the given words, each once and in their order; case does not matter. */
function someOf<Item extends string>(
  word: string,
  known: readonly Item[],
): Filter<readonly Item[]> {
  const inOrder = (given: readonly string[]): readonly Item[] =>
    known.filter((each) => given.includes(each));
  const takes = `${known.join(", ")}, or several of them with commas between`;
  const rule = wordRule(takes, (text) => {
    const given = text.toLowerCase().split(",");
    return given.every((each) => known.some((item) => item === each)) ? inOrder(given) : null;
  });
  return { word, ruleAt: () => rule, write: (value) => inOrder(value).join(",") };
}

function wordRule<T>(takes: string, read: (text: string) => T | null): Rule<T> {
  return textRule({ takes, hint: "TEXT", schema: { type: "string" }, read });
}

/** The result of {@link parseTaskSearch}; `problem` is a sentence that says how to fix the text. */
export type ParsedTaskSearch = { readonly search: TaskSearch } | { readonly problem: string };

/**
 * Reads a search: words between spaces, all of which must hold. `NAME:VALUE` is one of {@link FILTERS}; a bare UUID is
 * an id, any other bare word a tag. Text in double quotes is one value, with \" and \\ inside. Times are RFC 3339, a
 * day, or an age before `now`: 30m, 2h, 7d.
 */
export function parseTaskSearch(text: string, now: number): ParsedTaskSearch {
  const words = splitWords(text);
  if ("problem" in words) return words;
  let search = ANY_TASK;
  const given = new Set<Field>();
  for (const word of words.words) {
    const { value, shown } = word;
    const name = word.name ?? (TASK_ID.parse(value).kind === "value" ? "id" : "tag");
    const field = FIELDS.find((each) => FILTERS[each].word === name);
    if (field === undefined) return { problem: unreadable(shown, unknownName(name, value)) };
    const rule: Rule<unknown> = FILTERS[field].ruleAt(now);
    const parsed = parseText(rule, value);
    if (parsed.kind === "fault") return { problem: unreadable(shown, `it takes ${rule.takes}`) };
    if (given.has(field)) return { problem: twice(shown, field) };
    given.add(field);
    search = { ...search, [field]: parsed.value };
  }
  return { search };
}

/** Writes a search as {@link parseTaskSearch} reads it, with absolute times. Each search has one text. */
export function formatTaskSearch(search: TaskSearch): string {
  const words = FIELDS.flatMap((field) => {
    // Each filter writes the values of its own field.
    const { word, write } = FILTERS[field] as Filter<unknown>;
    const value = search[field];
    return value === null ? [] : [`${word}:${quotedWhereNeeded(write(value))}`];
  });
  return words.join(" ");
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
        problem: `The quotes in ${shorten(raw)} are not closed, or text follows them: write tag:"a b".`,
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

function unknownName(name: string, value: string): string {
  const tag = quotedWhereNeeded(`${name}:${value}`);
  return `'${name}' is not a filter; use ${SEARCH_WORDS.join(", ")}, and write a tag with a colon as tag:${tag}`;
}

function twice(shown: string, field: Field): string {
  const remedy =
    field === "tag"
      ? 'a task has one tag; write a tag with spaces in quotes, such as tag:"a b"'
      : "the filter occurs twice; give it once, with commas between several states";
  return `The search is ambiguous at ${shown}: ${remedy}.`;
}

function unreadable(shown: string, reason: string): string {
  return `The search is invalid at ${shown}: ${reason}.`;
}

function shorten(raw: string): string {
  const head = raw.length <= SHOWN_LENGTH_MAX ? raw : `${raw.slice(0, SHOWN_LENGTH_MAX)}…`;
  return `'${head.toWellFormed()}'`;
}
