import { rewriteParameters } from "../../common/parameters.ts";
import type { Sql, SqlValue } from "./sql.ts";

/** Values by the names of parameters; a statement takes those that it names. */
export type NamedValues = Readonly<Record<string, SqlValue | undefined>>;

/** A statement whose parameters have names: `@name`. */
export interface NamedStatement {
  all<Row>(sql: Sql, values: NamedValues): Promise<readonly Row[]>;
  get<Row>(sql: Sql, values: NamedValues): Promise<Row | undefined>;
}

/** Makes a statement of a text with `@name` for each parameter, which may stand in several places. */
export function named(text: string): NamedStatement {
  const names: string[] = [];
  const numbered = rewriteParameters(text, /@\w+/, (parameter) => {
    const name = parameter.slice(1);
    const known = names.indexOf(name) + 1;
    return `$${known === 0 ? names.push(name) : known}`;
  });
  const valuesOf = (values: NamedValues): readonly SqlValue[] =>
    names.map((name) => {
      const value = values[name];
      if (value === undefined) throw new Error(`the parameter ${name} has no value`);
      return value;
    });
  return {
    all: (sql, values) => sql.all(numbered, valuesOf(values)),
    get: (sql, values) => sql.get(numbered, valuesOf(values)),
  };
}
