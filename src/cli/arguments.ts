import { parseText, textRule, type Rule } from "../domain/rule.ts";
import { UsageError } from "./failure.ts";

/** An argument of a command, as citty and help take it, with what reads its values. */
export interface Argument<Value> {
  /** A flag with a value, a flag without one, or a word at its place. */
  readonly type: "string" | "boolean" | "positional";
  readonly description: string;
  /** Stands for the value; words separated by `|` are the only valid values. Empty if the name is enough. */
  readonly valueHint: string;
  /** For citty, which would refuse a missing word before a wrong flag. */
  readonly required: false;
  readonly isRequired?: boolean;
  /** True for the last word if it takes all remaining words. */
  readonly isRest?: boolean;
  /** The value of a flag that is not given, for help. */
  readonly standard?: string;
  /** Reads all given values in their order. Throws a {@link UsageError} that names the argument `shown`. */
  readonly read: (texts: readonly string[], shown: string) => Value;
}

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

/** A path, which shells complete. */
export const PATH = textOf("PATH");

/** A flag with a value; null if it is not given. The last one counts. */
export function flag<T>(
  rule: Rule<T>,
  description: string,
  about: { readonly standard?: string } = {},
): Argument<T | null> {
  const read: Argument<T | null>["read"] = (texts, shown) =>
    readAll(rule, texts, shown).at(-1) ?? null;
  return { type: "string", description, valueHint: rule.hint, required: false, ...about, read };
}

/** A flag that may be repeated; null if it is not given. */
export function flags<T>(rule: Rule<T>, description: string): Argument<readonly T[] | null> {
  const read: Argument<readonly T[] | null>["read"] = (texts, shown) =>
    texts.length === 0 ? null : readAll(rule, texts, shown);
  return { ...flag(rule, description), read };
}

/** A flag without a value: true if it is given, except as `=false`. */
export function toggle(description: string): Argument<boolean> {
  const read = (texts: readonly string[]): boolean => texts.at(-1) === "true";
  return { ...flag(textOf(""), description), type: "boolean", read };
}

export function required<T>(argument: Argument<T | null>): Argument<T> {
  // The wrapper of citty refuses a missing argument, so a value was read.
  return { ...(argument as Argument<T>), isRequired: true };
}

export function word<T>(rule: Rule<T>, description: string): Argument<T> {
  return required(optionalWord(rule, description));
}

/** A word that may be left out, and is null then. */
export function optionalWord<T>(rule: Rule<T>, description: string): Argument<T | null> {
  return { ...flag(rule, description), type: "positional" };
}

/** All remaining words, of which there must be at least one. */
export function rest(description: string): Argument<readonly string[]> {
  const read = (texts: readonly string[]): readonly string[] => texts;
  return { ...word(textOf(""), description), isRest: true, read };
}

function readAll<T>(rule: Rule<T>, texts: readonly string[], shown: string): readonly T[] {
  return texts.map((text) => {
    const parsed = parseText(rule, text);
    if (parsed.kind === "value") return parsed.value;
    throw new UsageError(`${shown} ${parsed.reason}`);
  });
}
