import { parseArgs } from "node:util";

import type { ArgsDef } from "citty";

import { nearestName, SETTING_LIST } from "../config/config.ts";
import { unknownNameMessage } from "../config/setting-name.ts";
import { parseText, quote } from "../domain/rule.ts";
import type { Rule } from "../domain/rule.ts";
import { UsageError } from "./failure.ts";

/** The value hint of a last positional argument that takes all the words that are left, of which there must be one. */
export const REST = "WORD...";

/**
 * What a command line gives, by the names of the definition: positional arguments and flags alike, each
 * with every value it was given, in order. What was not given is not in it. A boolean flag is "true" or
 * "false".
 */
export type Arguments = ReadonlyMap<string, readonly string[]>;

/**
 * Reads a command's arguments strictly: citty itself drops unknown flags, takes a missing value for an
 * empty one and ignores surplus arguments. Throws a {@link UsageError} for all of these.
 */
export function readArguments(rawArgs: readonly string[], definitions: ArgsDef): Arguments {
  const { flags, positionals, rest } = sortDefinitions(definitions);
  const options = Object.fromEntries([...flags].map(([name, type]) => [name, { type }]));
  const rules = { options, tokens: true, strict: false, allowPositionals: true } as const;
  const given = new Map<string, string[]>();
  const add = (name: string, value: string): void => {
    given.set(name, [...(given.get(name) ?? []), value]);
  };
  const open = [...positionals.keys()];
  for (const token of parseArgs({ args: [...rawArgs], ...rules }).tokens) {
    if (token.kind === "option") add(token.name, flagValue(token, flags));
    if (token.kind === "positional") {
      const name = open.shift() ?? rest ?? refuse(`unexpected argument ${quote(token.value)}`);
      add(name, token.value);
    }
  }
  const missing = open.find((name) => positionals.get(name));
  if (missing !== undefined) refuse(`${missing.toUpperCase()} is missing`);
  return given;
}

/** The last value that was given for a name. */
export function textOf(args: Arguments, name: string): string | undefined {
  return args.get(name)?.at(-1);
}

/** True when a boolean flag was given, and not as `=false`. */
export function isSet(args: Arguments, name: string): boolean {
  return textOf(args, name) === "true";
}

/** A flag whose value follows a rule, for a command's definition; {@link valueOf} reads it. */
export function flag(rule: Pick<Rule<unknown>, "hint">, description: string) {
  return { type: "string", valueHint: rule.hint, description } as const;
}

/** The last value that was given for a flag, by its rule; null where there is none. Throws a {@link UsageError}. */
export function valueOf<T>(args: Arguments, name: string, rule: Rule<T>): T | null {
  return valuesOf(args, name, rule)?.at(-1) ?? null;
}

/** All of them. */
export function valuesOf<T>(args: Arguments, name: string, rule: Rule<T>): readonly T[] | null {
  const texts = args.get(name);
  if (texts === undefined) return null;
  return texts.map((text) => {
    const parsed = parseText(rule, text);
    return parsed.kind === "value" ? parsed.value : refuse(`--${name} ${parsed.reason}`);
  });
}

type Flags = ReadonlyMap<string, "boolean" | "string">;

interface Definitions {
  readonly flags: Flags;
  /** In order; true for those that must be given. */
  readonly positionals: ReadonlyMap<string, boolean>;
  /** The last of them, where it takes all the words that are left. */
  readonly rest: string | null;
}

function sortDefinitions(definitions: ArgsDef): Definitions {
  const flags = new Map<string, "boolean" | "string">();
  const positionals = new Map<string, boolean>();
  let rest: string | null = null;
  for (const [name, { type, required, valueHint }] of Object.entries(definitions)) {
    if (type === "positional") positionals.set(name, required !== false);
    if (type === "positional" && valueHint === REST) rest = name;
    if (type !== "positional") flags.set(name, type === "boolean" ? "boolean" : "string");
  }
  return { flags, positionals, rest };
}

interface FlagToken {
  readonly name: string;
  /** With its dashes, as it was written. */
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

function flagValue(token: FlagToken, flags: Flags): string {
  const { name, rawName, value, inlineValue } = token;
  const type = rawName.startsWith("--") ? flags.get(name) : undefined;
  if (type === undefined) return refuse(unknownFlagMessage(rawName, flags));
  if (type === "boolean") return booleanValue(token);
  if (value === undefined) return refuse(`${rawName} needs a value`);
  // Else `--db --json` would open a file named --json. A dash alone is standard input.
  if (inlineValue !== true && value.startsWith("-") && value !== "-") {
    const text = quote(value);
    return refuse(
      `${rawName} needs a value, and ${text} looks like a flag; write ${rawName}=VALUE`,
    );
  }
  return value;
}

function booleanValue({ rawName, value }: FlagToken): string {
  if (value === undefined) return "true";
  if (value === "true" || value === "false") return value;
  return refuse(`${rawName} takes no value but true and false, not ${quote(value)}`);
}

function unknownFlagMessage(flag: string, flags: Flags): string {
  const known = ["--help", ...[...flags.keys()].map((name) => `--${name}`)];
  // Only `start` takes them all; there the table can say more, such as what a later release will know.
  const takesAllSettings = SETTING_LIST.every(({ flag: name }) => name === null || flags.has(name));
  if (takesAllSettings) return unknownNameMessage(flag, { what: "flag", others: known });
  return `unknown flag ${quote(flag)}; the nearest known one is ${nearestName(flag, known)}`;
}

function refuse(message: string): never {
  throw new UsageError(message);
}
