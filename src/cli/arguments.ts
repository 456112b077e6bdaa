import { parseArgs } from "node:util";

import { nearestName, SETTING_LIST } from "../config/config.ts";
import { unknownNameMessage } from "../config/setting-name.ts";
import { parseText, quote, textRule, type Rule } from "../domain/rule.ts";
import { UsageError } from "./failure.ts";

/** An argument of a command: how its value is read, and how help and completion describe it. */
export interface Argument<Value> {
  /** A flag has a value, a switch has none; a word has its place, and the rest takes all remaining words. */
  readonly kind: "flag" | "switch" | "word" | "rest";
  readonly description: string;
  /** Stands for the value; words separated by `|` are the only valid values. Empty when the name says it. */
  readonly hint: string;
  /** True when it must be given. */
  readonly isRequired: boolean;
  /** The value when it is not given, for the help. */
  readonly standard: string | null;
  /** Reads all given values in order; an empty list when there are none. `shown` is the user's name for it. */
  readonly read: (texts: readonly string[], shown: string) => Value;
}

/** The arguments of a command by name; words in their order. */
export type ArgumentTable = Readonly<Record<string, Argument<unknown>>>;

/** The values on a command line, by the names of the arguments. */
export type Given<Args extends ArgumentTable> = {
  readonly [Name in keyof Args]: Args[Name] extends Argument<infer Value> ? Value : never;
};

export const TEXT: Rule<string> = textRule({
  takes: "a text",
  hint: "TEXT",
  schema: { type: "string" },
  read: (text) => text,
});

/** Any text, with its own name in help texts. */
export function textOf(hint: string): Rule<string> {
  return { ...TEXT, hint };
}

/** A flag with a value; null when it is not given. The last one counts. */
export function flag<T>(
  rule: Rule<T>,
  description: string,
  { standard = null }: { readonly standard?: string | null } = {},
): Argument<T | null> {
  const read: Argument<T | null>["read"] = (texts, shown) =>
    readAll(rule, { texts, shown }).at(-1) ?? null;
  return { kind: "flag", hint: rule.hint, isRequired: false, standard, description, read };
}

/** A flag that may be repeated; null when it is not given. */
export function flags<T>(rule: Rule<T>, description: string): Argument<readonly T[] | null> {
  return {
    ...flag(rule, description),
    read: (texts, shown) => (texts.length === 0 ? null : readAll(rule, { texts, shown })),
  };
}

/** A flag without a value: true when it is given, except as `=false`. */
export function toggle(description: string): Argument<boolean> {
  return {
    ...flag(TEXT, description),
    kind: "switch",
    hint: "",
    read: (texts) => texts.at(-1) === "true",
  };
}

/** A word that must be given. */
export function word<T>(rule: Rule<T>, description: string): Argument<T> {
  return {
    ...optionalWord(rule, description),
    isRequired: true,
    read(texts, shown) {
      const [value] = readAll(rule, { texts, shown });
      return value ?? refuse(`${shown} is missing`);
    },
  };
}

/** A word that may be left out, and is null then. */
export function optionalWord<T>(rule: Rule<T>, description: string): Argument<T | null> {
  return { ...flag(rule, description), kind: "word", hint: "" };
}

/** All remaining words, of which there must be at least one. */
export function rest(description: string): Argument<readonly string[]> {
  return {
    ...flag(textOf("WORD..."), description),
    kind: "rest",
    isRequired: true,
    read: (texts) => texts,
  };
}

function readAll<T>(
  rule: Rule<T>,
  { texts, shown }: { readonly texts: readonly string[]; readonly shown: string },
): readonly T[] {
  return texts.map((text) => {
    const parsed = parseText(rule, text);
    return parsed.kind === "value" ? parsed.value : refuse(`${shown} ${parsed.reason}`);
  });
}

/**
 * Reads a command's arguments strictly: by itself `parseArgs` takes unknown flags, missing values and flags for values.
 * Throws a {@link UsageError} for all of these, for surplus words, and for values that their rules refuse.
 */
export function readArguments<const Args extends ArgumentTable>(
  rawArgs: readonly string[],
  table: Args,
): Given<Args> {
  const texts = readTexts(rawArgs, table);
  const values = Object.entries(table).map(([name, argument]) => {
    const isFlag = argument.kind === "flag" || argument.kind === "switch";
    const shown = isFlag ? `--${name}` : name.toUpperCase();
    return [name, argument.read(texts.get(name) ?? [], shown)];
  });
  // Every name of the table has the value that its own argument read.
  return Object.fromEntries(values) as Given<Args>;
}

function readTexts(
  rawArgs: readonly string[],
  table: ArgumentTable,
): ReadonlyMap<string, readonly string[]> {
  const entries = Object.entries(table);
  const kinds: Flags = new Map(
    entries.flatMap(([name, { kind }]) =>
      kind === "flag" || kind === "switch" ? [[name, kind]] : [],
    ),
  );
  const options = Object.fromEntries(
    [...kinds].map(([name, kind]) => [
      name,
      { type: kind === "switch" ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  const given = new Map<string, string[]>();
  const add = (name: string, value: string): void => {
    given.set(name, [...(given.get(name) ?? []), value]);
  };
  const open = entries.filter(([name]) => !kinds.has(name));
  const rules = { options, tokens: true, strict: false, allowPositionals: true } as const;
  for (const token of parseArgs({ args: [...rawArgs], ...rules }).tokens) {
    if (token.kind === "option") add(token.name, flagValue(token, kinds));
    if (token.kind === "positional") {
      const [name, { kind }] = open[0] ?? refuse(`unexpected argument ${quote(token.value)}`);
      add(name, token.value);
      if (kind === "word") open.shift();
    }
  }
  const missing = open.find(([name, { isRequired }]) => isRequired && !given.has(name));
  if (missing !== undefined) refuse(`${missing[0].toUpperCase()} is missing`);
  return given;
}

type Flags = ReadonlyMap<string, "flag" | "switch">;

type FlagToken = Extract<
  ReturnType<typeof parseArgs<{ strict: false; tokens: true }>>["tokens"][number],
  { kind: "option" }
>;

function flagValue(token: FlagToken, kinds: Flags): string {
  const { name, rawName, value, inlineValue } = token;
  const kind = rawName.startsWith("--") ? kinds.get(name) : undefined;
  if (kind === undefined) return refuse(unknownFlagMessage(rawName, kinds));
  if (kind === "switch") return switchValue(token);
  if (value === undefined) return refuse(`${rawName} needs a value`);
  // Otherwise `--db --json` would open a file named --json. A dash alone is standard input.
  if (inlineValue !== true && value.startsWith("-") && value !== "-") {
    const text = quote(value);
    return refuse(
      `${rawName} needs a value, and ${text} looks like a flag; write ${rawName}=VALUE`,
    );
  }
  return value;
}

function switchValue({ rawName, value }: FlagToken): string {
  if (value === undefined) return "true";
  if (value === "true" || value === "false") return value;
  return refuse(`${rawName} takes no value but true and false, not ${quote(value)}`);
}

function unknownFlagMessage(given: string, kinds: Flags): string {
  const known = ["--help", ...[...kinds.keys()].map((name) => `--${name}`)];
  // Only `start` takes them all; its table can tell more, such as the settings of a later release.
  const takesAllSettings = SETTING_LIST.every(({ flag: name }) => name === null || kinds.has(name));
  if (takesAllSettings) return unknownNameMessage(given, { what: "flag", others: known });
  return `unknown flag ${quote(given)}; the nearest known one is ${nearestName(given, known)}`;
}

function refuse(message: string): never {
  throw new UsageError(message);
}
