import { parseArgs } from "node:util";

/** A flag of a script. */
export interface Flag<Value> {
  /** The placeholder of its value in the help; empty for a flag without one. */
  readonly value: string;
  /** Its meaning, with its default. */
  readonly meaning: string;
  /** `text` is undefined where it is not given. Throws at an invalid value, and names the flag. */
  readonly read: (text: string | undefined, name: string) => Value;
}

/** A script's flags by name. */
export type Flags = Readonly<Record<string, Flag<unknown>>>;

/** The values of the flags. */
export type Values<Own extends Flags> = {
  readonly [Name in keyof Own]: ReturnType<Own[Name]["read"]>;
};

/** A number above 0. */
export function number(meaning: string, fallback?: number): Flag<number> {
  return flag("N", { meaning, fallback, read: (text, name) => positive(text, name) });
}

/** A whole number above 0. */
export function whole(meaning: string, fallback?: number): Flag<number> {
  return flag("N", { meaning, fallback, read: (text, name) => wholeNumber(text, name) });
}

/** Whole numbers above 0, separated by commas. */
export function wholes(meaning: string, fallback?: number): Flag<readonly number[]> {
  const read = (text: string, name: string): readonly number[] =>
    text.split(",").map((part) => wholeNumber(part, name));
  return flag("N,…", { meaning, fallback, read });
}

/** Any text, of which `value` is the sort. */
export function text(value: string, meaning: string, fallback?: string): Flag<string> {
  return flag(value, { meaning, fallback, read: (given) => given });
}

/** Some of these names, separated by commas: all of them unless it is given. */
export function names<Name extends string>(
  what: string,
  all: readonly Name[],
): Flag<readonly Name[]> {
  const read = (given: string, name: string): readonly Name[] =>
    given.split(",").map((each) => {
      const known = all.find((one) => one === each);
      if (known !== undefined) return known;
      throw new Error(`--${name} knows ${all.join(", ")}, not ${each}`);
    });
  return {
    value: "a,b,…",
    meaning: `${what}: ${all.join(", ")} (all)`,
    read: (given, name) => (given === undefined ? all : read(given, name)),
  };
}

/** Two numbers of seconds, in milliseconds. */
export function span(
  meaning: string,
  fallback: string,
): Flag<{ readonly min: number; readonly max: number }> {
  const read = (given: string, name: string): { readonly min: number; readonly max: number } => {
    const [min, max, ...more] = given.split(",").map((part) => positive(part, name) * 1000);
    if (min !== undefined && max !== undefined && max >= min && more.length === 0)
      return { min, max };
    throw new Error(`--${name} must be two numbers of seconds, such as ${fallback}`);
  };
  return flag("A,B", { meaning, fallback, read });
}

/** True where it is given. */
export function toggle(meaning: string): Flag<boolean> {
  return { value: "", meaning, read: (given) => given !== undefined };
}

/** Null where it is not given. */
export function optional<Value>(one: Flag<Value>): Flag<Value | null> {
  return { ...one, read: (given, name) => (given === undefined ? null : one.read(given, name)) };
}

/** The arguments of a command line, by name of a flag. */
export type Given = Readonly<Record<string, string | boolean | undefined>>;

/** Reads a command line. Throws at unknown arguments; returns null when it asks for help. */
export function parseFlags(flags: Flags, args: readonly string[]): Given | null {
  const options = Object.fromEntries(
    Object.entries({ ...flags, help: toggle("") }).map(([name, { value }]) => {
      return [name, { type: value === "" ? ("boolean" as const) : ("string" as const) }];
    }),
  );
  const given: Given = parseArgs({ args: [...args], options }).values;
  return given["help"] === true ? null : given;
}

/** The values of these flags on a command line. Throws at a value that a flag cannot have. */
export function valuesOf<Own extends Flags>(flags: Own, given: Given): Values<Own> {
  const read = Object.entries(flags).map(([name, flag]) => {
    const said = given[name];
    return [name, flag.read(said === undefined ? undefined : String(said), name)];
  });
  // By name what each reads, as the type says.
  return Object.fromEntries(read) as Values<Own>;
}

const NAME_WIDTH = 18;

/** A line for each flag. */
export function flagLines(flags: Flags): string {
  const lines = Object.entries(flags).map(([name, { value, meaning }]) => {
    const shown = `--${name} ${value}`.trimEnd();
    const gap = shown.length < NAME_WIDTH ? shown.padEnd(NAME_WIDTH) : `${shown}  `;
    return `  ${gap}${meaning}`;
  });
  return lines.join("\n");
}

function flag<Value>(
  value: string,
  of: {
    readonly meaning: string;
    readonly fallback: string | number | undefined;
    readonly read: (text: string, name: string) => Value;
  },
): Flag<Value> {
  const { meaning, fallback, read } = of;
  return {
    value,
    meaning: fallback === undefined ? meaning : `${meaning} (${fallback})`,
    read: (given, name) => {
      const said = given ?? fallback;
      if (said === undefined) throw new Error(`--${name} is needed`);
      return read(String(said), name);
    },
  };
}

function positive(given: string, name: string): number {
  const value = Number(given);
  if (value > 0) return value;
  throw new Error(`--${name} must be a number above 0`);
}

function wholeNumber(given: string, name: string): number {
  const value = Number(given);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name} must be a whole number above 0`);
}
