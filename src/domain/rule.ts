import { DAY_MS, UNIT_MS } from "./clock/duration.ts";
import { hasControl, isPlainText } from "./text.ts";

/** Why a value is not taken. The `reason` of a rule completes "KEY …", as in "KEY must be …". */
export interface Fault {
  readonly kind: "fault";
  readonly reason: string;
  /** True if one item of a list is at fault, which `reason` names. */
  readonly isOfItem?: true;
}

export type Parsed<T> = { readonly kind: "value"; readonly value: T } | Fault;

declare const WRITTEN: unique symbol;

/**
 * The values that are allowed, wherever they are written: in the file, in a variable, a flag, a query, a body or a
 * search. Each caller converts the value to the form of TOML and JSON, and words the fault in its own way; it decides
 * nothing else. `Written` is the type that a client writes for it.
 */
export interface Rule<T, Written = unknown> {
  /** Completes "It takes …" and "It must be …". */
  readonly takes: string;
  /** Stands for the value in help texts, such as `DURATION`. */
  readonly hint: string;
  /** How text is converted to the form that TOML and JSON give: see {@link rawOf}. */
  readonly form: "text" | "integer" | "number" | "boolean" | "list";
  /** In JSON Schema 2020-12. */
  readonly schema: Readonly<Record<string, unknown>>;
  /** Never there: it carries the type. */
  readonly [WRITTEN]?: Written;
  /** Reads a value in the form that TOML and JSON give. */
  parse(raw: unknown): Parsed<T>;
}

interface RuleParts<T> extends Pick<Rule<T>, "takes" | "hint"> {
  /** `text` unless given. */
  readonly form?: Rule<T>["form"];
  readonly schema: Rule<T>["schema"];
  /** Reads the value; null when it is not valid. */
  readonly read: (raw: unknown) => T | null;
  /** A better reason for a common mistake; null for any other. */
  readonly mistake?: (raw: unknown) => string | null;
  /** The value may be a secret: no fault repeats it. */
  readonly isSecret?: boolean;
}

/** Makes a rule. Its fault has the accepted values and the given value. */
export function rule<T, Written = unknown>({
  read,
  mistake,
  isSecret = false,
  ...parts
}: RuleParts<T>): Rule<T, Written> {
  return {
    form: "text",
    ...parts,
    parse(raw) {
      const value = read(raw);
      if (value !== null) return { kind: "value", value };
      const given = isSecret ? "" : `, not ${quote(raw)}`;
      return fault(mistake?.(raw) ?? `must be ${parts.takes}${given}`);
    },
  };
}

/** A rule for texts: it refuses everything else. */
export function textRule<T>({
  read,
  ...parts
}: Omit<RuleParts<T>, "read"> & { readonly read: (text: string) => T | null }): Rule<T, string> {
  return rule({ ...parts, read: (raw) => (typeof raw === "string" ? read(raw) : null) });
}

/** Reads a value that is written as text, as flags, variables, queries and searches are. */
export function parseText<T>(of: Rule<T>, text: string): Parsed<T> {
  return of.parse(rawOf(of, text));
}

/** Converts text to the form that TOML and JSON would give. Text without that form stays, and its rule refuses it. */
export function rawOf({ form }: Pick<Rule<unknown>, "form">, text: string): unknown {
  if (form === "integer") return /^(?!-0)-?\d{1,15}$/.test(text) ? Number(text) : text;
  if (form === "number") return /^(?!-0$)-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : text;
  if (form === "boolean") return text === "true" || (text === "false" ? false : text);
  if (form === "text") return text;
  return text.split(",").flatMap((item) => (item.trim() === "" ? [] : [item.trim()]));
}

export function integerBetween(min: number, max: number): Rule<number, number> {
  return rule({
    takes: `a whole number from ${min} to ${max}`,
    hint: "N",
    form: "integer",
    schema: { type: "integer", minimum: min, maximum: max },
    read: (raw) =>
      typeof raw === "number" && Number.isInteger(raw) && raw >= min && raw <= max ? raw : null,
  });
}

export function numberBetween(min: number, max: number): Rule<number, number> {
  return rule({
    takes: `a number from ${min} to ${max}`,
    hint: "N",
    form: "number",
    schema: { type: "number", minimum: min, maximum: max },
    read: (raw) => (typeof raw === "number" && raw >= min && raw <= max ? raw : null),
  });
}

export const TRUTH: Rule<boolean, boolean> = rule({
  takes: "true or false",
  hint: "true|false",
  form: "boolean",
  schema: { type: "boolean" },
  read: (raw) => (typeof raw === "boolean" ? raw : null),
});

/** Text that is not empty and has no control characters. */
export const PLAIN_TEXT: Rule<string> = textRule({
  takes: "a non-empty string without control characters",
  hint: "TEXT",
  schema: { type: "string", minLength: 1 },
  read: (text) => (text !== "" && !hasControl(text) ? text : null),
});

/** Text of at most `lengthMax` code points that is shown as it is: {@link isPlainText} accepts the same. */
export function plainText(lengthMax: number): Rule<string, string> {
  return textRule({
    takes: `a string of at most ${lengthMax} characters, without control characters or lone surrogates`,
    hint: "TEXT",
    schema: { type: "string", maxLength: lengthMax, pattern: NO_CONTROL },
    read: (text) => (isPlainText(text, lengthMax) ? text : null),
  });
}

const NO_CONTROL = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/** The same with several lines: line breaks and tabs are allowed. */
export function plainLines(lengthMax: number): Rule<string, string> {
  const isPlain = (text: string): boolean =>
    isPlainText(text.replaceAll(/[\t\n\r]/g, " "), lengthMax);
  return textRule({
    ...plainText(lengthMax),
    schema: { type: "string", maxLength: lengthMax },
    read: (text) => (isPlain(text) ? text : null),
  });
}

export function oneOf<const Word extends string>(words: readonly Word[]): Rule<Word, Word> {
  return rule({
    takes: `one of ${words.join(", ")}`,
    hint: words.join("|"),
    schema: { type: "string", enum: words },
    read: (raw) => words.find((word) => word === raw) ?? null,
  });
}

/** Some of a few words, at least one; each counts once, in the order given here. */
export function someOf<const Word extends string>(
  words: readonly Word[],
): Rule<readonly Word[], readonly Word[]> {
  return rule({
    takes: `an array of some of: ${words.join(", ")}`,
    hint: words.join("|"),
    form: "list",
    schema: { type: "array", items: { type: "string", enum: words }, minItems: 1 },
    read(raw) {
      const given: readonly unknown[] = Array.isArray(raw) ? raw : [];
      const found = words.filter((word) => given.includes(word));
      const isKnown = given.every((each) => found.some((word) => word === each));
      return isKnown && found.length > 0 ? found : null;
    },
  });
}

/** The longest duration anywhere: a longer one added to the time of day could leave the range of dates. */
const DURATION_MS_MAX = 365 * DAY_MS;

/** A length of time such as `"10s"`, from 1 ms to 365 days; the value is in milliseconds. */
export const DURATION: Rule<number, string> = textRule({
  takes:
    `a whole number and a unit, such as "500ms", "10s", "5m", "2h" or "1d", ` +
    `from "1ms" to "365d"`,
  hint: "DURATION",
  schema: { type: "string", pattern: "^\\d{1,12}(ms|s|m|h|d)$" },
  read(text) {
    const [, count, unit = ""] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? [];
    const lengthMs = Number(count) * (UNIT_MS.get(unit) ?? NaN);
    return lengthMs >= 1 && lengthMs <= DURATION_MS_MAX ? lengthMs : null;
  },
  mistake: (raw) =>
    typeof raw === "number" || (typeof raw === "string" && /^\d{1,12}$/.test(raw))
      ? `needs a unit: write "${raw}s" for seconds (units: ms, s, m, h, d)`
      : null,
});

const SIZE_UNIT_BYTES: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["KiB", 1024],
  ["MiB", 1024 ** 2],
  ["GiB", 1024 ** 3],
]);

/** A size such as `"1MiB"` or `4096`, within both bounds; the value is in bytes. */
export function sizeBetween(minBytes: number, maxBytes: number): Rule<number> {
  return rule({
    takes:
      `a size such as "64KiB", "1MiB" or 4096 (bytes), ` + `from ${minBytes} to ${maxBytes} bytes`,
    hint: "SIZE",
    schema: { type: ["integer", "string"], pattern: "^\\d{1,16}(KiB|MiB|GiB|)$" },
    read(raw) {
      const text = typeof raw === "number" || typeof raw === "string" ? String(raw) : "";
      const [, count, unit = ""] = /^(\d{1,16})(KiB|MiB|GiB|)$/.exec(text) ?? [];
      const bytes = Number(count) * (SIZE_UNIT_BYTES.get(unit) ?? NaN);
      return bytes >= minBytes && bytes <= maxBytes ? bytes : null;
    },
  });
}

/** A list of such values. Flags repeat it, variables separate it with commas. */
export function listOf<T, Written = unknown>(
  item: Rule<T, Written>,
): Rule<readonly T[], readonly Written[]> {
  return {
    takes: "a list",
    hint: item.hint,
    form: "list",
    schema: { type: "array", items: item.schema },
    parse(raw) {
      if (!Array.isArray(raw)) return fault(`must be a list, not ${quote(raw)}`);
      const values: T[] = [];
      for (const [index, element] of raw.entries()) {
        const parsed = item.parse(element);
        if (parsed.kind === "fault")
          return { ...fault(`item ${index + 1} ${parsed.reason}`), isOfItem: true };
        values.push(parsed.value);
      }
      return { kind: "value", value: Object.freeze(values) };
    },
  };
}

export function fault(reason: string): Fault {
  return { kind: "fault", reason };
}

/** Shows a value in a message: short, on one line; of a list or an object only its kind. */
export function quote(value: unknown): string {
  if (typeof value === "string") {
    const short = value.length > 64 ? `${value.slice(0, 64)}…` : value;
    // JSON escapes only C0; U+009B begins a terminal escape as well.
    return JSON.stringify(short).replaceAll(/\p{Cc}/gu, "\ufffd");
  }
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return "a list";
  return Object.prototype.toString.call(value) === "[object Date]" ? "a date" : "a table";
}
