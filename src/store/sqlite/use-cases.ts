import type Database from "better-sqlite3";

import { type SizedRow, takeWithin } from "../common/list.ts";
import type { FoundBy, LookUp, Statement, Values } from "../sql/statement.ts";
import { NO_RESULTS, isCall, type Call, type UseCase } from "../sql/use-case.ts";
import type { Connection } from "./machine/connection.ts";

type UseCases = Readonly<Record<string, (...args: never[]) => UseCase<unknown>>>;

type Bound<Cases extends UseCases> = {
  readonly [Name in keyof Cases]: Cases[Name] extends (...args: infer Args) => UseCase<infer Result>
    ? (...args: Args) => Result
    : never;
};

/** Makes functions on a connection of use cases. Each statement is prepared when it first runs. */
export function bindUseCases<Cases extends UseCases>(
  connection: Connection,
  useCases: Cases,
): Bound<Cases> {
  const runner = new Runner(connection);
  const bound = Object.entries(useCases).map(([name, useCase]) => [
    name,
    (...args: never[]) => runner.run(useCase(...args)),
  ]);
  // Each keeps its name, its arguments and its result.
  return Object.fromEntries(bound) as Bound<Cases>;
}

/**
 * The same for reads of several statements: each read sees one moment of the database. Without it a task or an attempt
 * whose state changes between two statements would appear twice or not at all.
 */
export function bindSnapshots<Cases extends UseCases>(
  connection: Connection,
  useCases: Cases,
): Bound<Cases> {
  const bound = Object.entries(bindUseCases(connection, useCases)).map(([name, read]) => [
    name,
    connection.transaction(read),
  ]);
  return Object.fromEntries(bound) as Bound<Cases>;
}

/** Makes functions on a connection of look-ups. */
export function bindLookUps<LookUps extends Readonly<Record<string, LookUp<never, unknown>>>>(
  connection: Connection,
  lookUps: LookUps,
): { readonly [Name in keyof LookUps]: (key: string) => FoundBy<LookUps[Name]> | null } {
  const bound = Object.entries(lookUps).map(([name, of]) => [name, bindLookUp(connection, of)]);
  return Object.fromEntries(bound) as ReturnType<typeof bindLookUps<LookUps>>;
}

function bindLookUp<Row, Found>(
  connection: Connection,
  { sqlite, toFound }: LookUp<Row, Found>,
): (key: string) => Found | null {
  const find = connection.prepare<[string], Row>(sqlite);
  return (key) => {
    const row = find.get(key);
    return row === undefined ? null : toFound(row);
  };
}

class Runner {
  readonly #connection: Connection;
  readonly #prepared = new Map<Statement, Database.Statement<[object]>>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  run<Result>(useCase: UseCase<Result>): Result {
    let step = useCase.next();
    while (step.done !== true) {
      const request = step.value;
      const result = isCall(request) ? this.#call(request) : request.map((each) => this.run(each));
      step = useCase.next(result);
    }
    return step.value;
  }

  #call({ kind, statement, values }: Call): unknown {
    if (statement.sqlite === null) return NO_RESULTS[kind];
    const prepared = this.#prepared.get(statement) ?? this.#prepare(statement, statement.sqlite);
    const bound = toBound(values);
    if (kind === "all") return prepared.all(bound);
    if (kind === "get") return prepared.get(bound);
    // The statement determines its rows: these have a size.
    if (kind === "within") return takeWithin(prepared.iterate(bound) as Iterable<SizedRow>);
    return prepared.run(bound).changes;
  }

  #prepare(statement: Statement, text: string): Database.Statement<[object]> {
    const prepared = this.#connection.prepare<[object]>(text);
    this.#prepared.set(statement, prepared);
    return prepared;
  }
}

function toBound(values: Values): object {
  if (!Object.values(values).some(Array.isArray)) return values;
  const entries = Object.entries(values);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, Array.isArray(value) ? JSON.stringify(value) : value]),
  );
}
