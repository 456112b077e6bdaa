import { resolve } from "node:path";

import { hasControl } from "../domain/text.ts";

/** A value that passed its check, or why not: `reason` completes "KEY …", as in "KEY must be …". */
export type ParsedValue<T> =
  | { readonly kind: "value"; readonly value: T }
  | { readonly kind: "fault"; readonly reason: string };

/** What a setting may hold: how it is written and how it is checked. */
export interface ValueKind<T> {
  /** How flags and variables, which are text, come to the form a TOML file gives. */
  readonly form: "text" | "integer" | "boolean" | "list";
  /** Stands for the value in help texts, such as `DURATION`. */
  readonly hint: string;
  /** Checks a value as TOML gives it. Relative paths are relative to `folder`. */
  parse(raw: unknown, folder: string): ParsedValue<T>;
  /** The value as an operator may see it, where it can hold a secret. */
  shown?(value: T): unknown;
}

/** A whole number within both bounds. */
export function integerBetween(min: number, max: number): ValueKind<number> {
  return {
    form: "integer",
    hint: "N",
    parse(raw) {
      if (typeof raw === "number" && Number.isInteger(raw) && raw >= min && raw <= max) {
        return { kind: "value", value: raw };
      }
      return fault(`must be a whole number from ${min} to ${max}, not ${quote(raw)}`);
    },
  };
}

/** `true` or `false`. */
export const booleanValue: ValueKind<boolean> = {
  form: "boolean",
  hint: "true|false",
  parse(raw) {
    if (typeof raw === "boolean") return { kind: "value", value: raw };
    return fault(`must be true or false, not ${quote(raw)}`);
  },
};

/** Text that is not empty and has no control characters. */
export const plainText: ValueKind<string> = {
  form: "text",
  hint: "TEXT",
  parse(raw) {
    if (typeof raw === "string" && raw !== "" && !hasControl(raw)) {
      return { kind: "value", value: raw };
    }
    return fault(`must be text, not empty, without control characters, not ${quote(raw)}`);
  },
};

/** The path of a file or folder; the value is absolute. */
export const path: ValueKind<string> = {
  form: "text",
  hint: "PATH",
  parse(raw, folder) {
    if (typeof raw !== "string" || raw === "" || hasControl(raw)) {
      return fault(`must be a path, not ${quote(raw)}`);
    }
    // SQLite gives both spellings a meaning of its own; here they would become oddly named files.
    if (raw === ":memory:" || raw.startsWith("file:")) {
      return fault(`must be the path of a file on disk, not ${quote(raw)}`);
    }
    return { kind: "value", value: resolve(folder, raw) };
  },
};

/** A path, or nothing where none is given. TOML has no null: only a default can be one. */
export const pathOrNone: ValueKind<string | null> = {
  ...path,
  parse: (raw, folder) => (raw === null ? { kind: "value", value: null } : path.parse(raw, folder)),
};

/** One of a few words. */
export function oneOf<const Word extends string>(words: readonly Word[]): ValueKind<Word> {
  return {
    form: "text",
    hint: words.join("|"),
    parse(raw) {
      const word = words.find((known) => known === raw);
      if (word !== undefined) return { kind: "value", value: word };
      return fault(`must be one of ${words.join(", ")}, not ${quote(raw)}`);
    },
  };
}

const DURATION_UNIT_MS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", 1_000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
]);

/** The longest duration taken anywhere: beyond it a sum with the time of day could leave dates. */
const DURATION_MS_MAX = 365 * 86_400_000;

/** A length of time such as `"10s"`, from 1 ms to 365 days; the value is in milliseconds. */
export const duration: ValueKind<number> = {
  form: "text",
  hint: "DURATION",
  parse(raw) {
    if (typeof raw === "number" || (typeof raw === "string" && /^\d{1,12}$/.test(raw))) {
      return fault(`needs a unit: write "${raw}s" for seconds (units: ms, s, m, h, d)`);
    }
    const parts = typeof raw === "string" ? /^(\d{1,12})(ms|s|m|h|d)$/.exec(raw) : null;
    const valueMs = Number(parts?.[1]) * (DURATION_UNIT_MS.get(parts?.[2] ?? "") ?? NaN);
    if (valueMs >= 1 && valueMs <= DURATION_MS_MAX) return { kind: "value", value: valueMs };
    return fault(
      `must be a whole number and a unit, such as "500ms", "10s", "5m", "2h" or "1d", ` +
        `from "1ms" to "365d", not ${quote(raw)}`,
    );
  },
};

const SIZE_UNIT_BYTES: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["KiB", 1024],
  ["MiB", 1024 ** 2],
  ["GiB", 1024 ** 3],
]);

/** A size such as `"1MiB"` or `4096`, within both bounds; the value is in bytes. */
export function sizeBetween(minBytes: number, maxBytes: number): ValueKind<number> {
  return {
    form: "text",
    hint: "SIZE",
    parse(raw) {
      const text = typeof raw === "number" ? String(raw) : raw;
      const parts = typeof text === "string" ? /^(\d{1,16})(KiB|MiB|GiB|)$/.exec(text) : null;
      const bytes = Number(parts?.[1]) * (SIZE_UNIT_BYTES.get(parts?.[2] ?? "") ?? NaN);
      if (bytes >= minBytes && bytes <= maxBytes) return { kind: "value", value: bytes };
      return fault(
        `must be a size such as "64KiB", "1MiB" or 4096 (bytes), ` +
          `from ${minBytes} to ${maxBytes} bytes, not ${quote(raw)}`,
      );
    },
  };
}

/** A list of such values. Flags repeat it, variables separate it with commas. */
export function listOf<T>(item: ValueKind<T>): ValueKind<readonly T[]> {
  return {
    form: "list",
    hint: item.hint,
    parse(raw, folder) {
      if (!Array.isArray(raw)) return fault(`must be a list, not ${quote(raw)}`);
      const values: T[] = [];
      for (const [index, element] of raw.entries()) {
        const parsed = item.parse(element, folder);
        if (parsed.kind === "fault") return fault(`item ${index + 1} ${parsed.reason}`);
        values.push(parsed.value);
      }
      return { kind: "value", value: Object.freeze(values) };
    },
  };
}

/** A fault; `reason` completes "KEY …". */
export function fault(reason: string): ParsedValue<never> {
  return { kind: "fault", reason };
}

/** Shows a value in a message: short, on one line, and only its kind where it has parts. */
export function quote(value: unknown): string {
  if (typeof value === "string") {
    const short = value.length > 64 ? `${value.slice(0, 64)}…` : value;
    // JSON escapes C0 only; U+009B begins a terminal escape as well.
    return JSON.stringify(short).replaceAll(/\p{Cc}/gu, "\ufffd");
  }
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return "a list";
  return value instanceof Date ? "a date" : "a table";
}

/**
 * The known name that is closest to `word`, to name it beside a misspelt one; null only when nothing
 * is known. A section may be left out: `timeout` is close to `webhooks.timeout`.
 */
export function nearestName(word: string, known: readonly string[]): string | null {
  // Cut, because the distance costs the product of the lengths; no known name is that long.
  const typed = word.slice(0, 64).toLowerCase();
  let nearest: string | null = null;
  let least = Infinity;
  for (const name of known) {
    const lower = name.toLowerCase();
    const last = lower.slice(lower.lastIndexOf(".") + 1);
    const distance = Math.min(nameDistance(typed, lower), nameDistance(typed, last) + 0.5);
    if (distance < least) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

/** Edits between two names; one that begins with the other, such as `retry`, is close at any length. */
function nameDistance(a: string, b: string): number {
  const isPrefix = Math.min(a.length, b.length) >= 3 && (a.startsWith(b) || b.startsWith(a));
  const prefixDistance = isPrefix ? 1 + Math.abs(a.length - b.length) / 10 : Infinity;
  return Math.min(prefixDistance, editDistance(a, b));
}

/** Levenshtein distance, two rows at a time. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_unused, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
