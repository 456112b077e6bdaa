import { rewriteParameters } from "../common/row.ts";

/** A value of a statement. A list is one parameter: an array on PostgreSQL, a JSON array on SQLite. */
export type Value = Scalar | readonly Scalar[];
export type Scalar = string | number | null;

/** Values by the names of parameters. A statement takes those that it names. */
export type Values = Readonly<Record<string, Value | undefined>>;

/** True or false as a row has it: SQLite has no booleans. */
export type Flag = boolean | 0 | 1;

/** A statement in the dialect of each database; null if that database does not need it. */
export interface Statement {
  readonly sqlite: string | null;
  readonly postgres: NumberedText | null;
}

/** A text with `$1` for the first of the names, and so on. */
export interface NumberedText {
  readonly text: string;
  readonly names: readonly string[];
  /** The names that are cast to `uuid`: such a parameter takes any text, or a list. */
  readonly ids: ReadonlySet<string>;
}

/**
 * Makes a statement of one text for both databases. It is written for PostgreSQL, with `@name` for parameters and quoted
 * aliases. For SQLite it loses casts (`::bigint`) and locks of rows (`FOR UPDATE`), and `= ANY(@list)` becomes
 * `IN (…)`; `INDEXED BY` is for SQLite alone.
 */
export function statement(text: string): Statement {
  return eachDialect({ sqlite: text, postgres: text });
}

/** Makes a statement whose texts differ. */
export function eachDialect(texts: {
  readonly sqlite: string | null;
  readonly postgres: string | null;
}): Statement {
  return {
    sqlite: texts.sqlite === null ? null : toSqlite(texts.sqlite),
    postgres: texts.postgres === null ? null : toPostgres(texts.postgres),
  };
}

/** A statement that PostgreSQL alone needs, such as a lock: SQLite has one writer. */
export function onlyPostgres(text: string): Statement {
  return eachDialect({ sqlite: null, postgres: text });
}

/** A statement that SQLite alone needs. */
export function onlySqlite(text: string): Statement {
  return eachDialect({ sqlite: text, postgres: null });
}

const CAST = /::\w+(?:\[\])?/g;
const ROW_LOCK = / FOR (?:NO KEY UPDATE|UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?/g;
const ANY_OF = /= ANY ?\((@\w+)\)/g;
const INDEX = / INDEXED BY \w+/g;
const ID = /@(\w+)::uuid\b/g;

function toSqlite(text: string): string {
  return text
    .replaceAll(CAST, "")
    .replaceAll(ROW_LOCK, "")
    .replaceAll(ANY_OF, "IN (SELECT value FROM json_each($1))");
}

function toPostgres(text: string): NumberedText {
  const names: string[] = [];
  const numbered = rewriteParameters(text.replaceAll(INDEX, ""), /@\w+/, (parameter) => {
    const name = parameter.slice(1);
    const known = names.indexOf(name) + 1;
    return `$${known === 0 ? names.push(name) : known}`;
  });
  return {
    text: numbered,
    names,
    ids: new Set([...text.matchAll(ID)].map(([, name = ""]) => name)),
  };
}

/** A look-up of one row by a unique text. On PostgreSQL the look-ups of a turn of the event loop are one statement. */
export interface LookUp<Row, Found> {
  /** Its only parameter is the key. */
  readonly sqlite: string;
  /** Its only parameter is an array of keys; each row has its own as `key`. */
  readonly postgres: string;
  /** Converts a row, which may have more columns than its type names. */
  readonly toFound: (row: Row) => Found;
}

/** The result of a look-up. */
export type FoundBy<Of> = Of extends LookUp<never, infer Found> ? Found : never;

export function lookUp<Row, Found>(
  parts: {
    readonly columns: string;
    readonly from: string;
    readonly key: string;
    readonly condition?: string;
  },
  toFound: (row: Row) => Found,
): LookUp<Row, Found> {
  const { columns, from, key, condition = "" } = parts;
  return {
    sqlite: `SELECT ${columns} FROM ${from} WHERE ${key} = ? ${condition}`,
    postgres: `SELECT ${key} AS key, ${columns} FROM ${from} WHERE ${key} = ANY($1::text[]) ${condition}`,
    toFound,
  };
}
