import { type SizedRow, takeWithin } from "../common/list.ts";
import type { FoundBy, LookUp } from "../sql/statement.ts";
import { NO_RESULTS, isCall, type Call, type NoResult, type UseCase } from "../sql/use-case.ts";
import type { BatchSql, ReadSql, SqlValue } from "./machine/sql.ts";
import { each } from "./steps.ts";
import { toUuid } from "./task-columns.ts";
import { turnLookUp, type Keyed } from "./turn-reads.ts";

type UseCases = Readonly<Record<string, (args: never) => UseCase<unknown>>>;

type Reads<Cases extends UseCases> = {
  readonly [Name in keyof Cases]: Cases[Name] extends (...args: infer Args) => UseCase<infer Result>
    ? (...args: Args) => Promise<Result>
    : never;
};

type Writes<Cases extends UseCases> = {
  readonly [Name in keyof Cases]: Cases[Name] extends (args: infer Args) => UseCase<infer Result>
    ? (list: readonly Args[]) => Promise<readonly Result[]>
    : never;
};

/** Makes reads of use cases. */
export function bindReads<Cases extends UseCases>(sql: ReadSql, useCases: Cases): Reads<Cases> {
  const bound = Object.entries(useCases).map(([name, useCase]) => [
    name,
    (args: never) => runOn(sql, useCase(args)),
  ]);
  // Each keeps its name, its arguments and its result.
  return Object.fromEntries(bound) as Reads<Cases>;
}

/** Makes writes of use cases: the operations of a batch run one after the other. */
export function bindWrites<Cases extends UseCases>(sql: BatchSql, useCases: Cases): Writes<Cases> {
  const bound = Object.entries(useCases).map(([name, useCase]) => [
    name,
    each((args: never) => runOn(sql, useCase(args))),
  ]);
  return Object.fromEntries(bound) as Writes<Cases>;
}

/** Makes writes of use cases that take lists: the lists of all operations of a batch are one. */
export function bindLists<Cases extends UseCases>(sql: BatchSql, useCases: Cases): Writes<Cases> {
  const bound = Object.entries(useCases).map(([name, useCase]) => [
    name,
    async (lists: readonly (readonly unknown[])[]) => {
      await runOn(sql, useCase(lists.flat() as never));
      return lists.map(() => {});
    },
  ]);
  return Object.fromEntries(bound) as Writes<Cases>;
}

/** Makes reads of look-ups. */
export function bindLookUps<LookUps extends Readonly<Record<string, LookUp<never, unknown>>>>(
  sql: ReadSql,
  lookUps: LookUps,
): { readonly [Name in keyof LookUps]: (key: string) => Promise<FoundBy<LookUps[Name]> | null> } {
  const bound = Object.entries(lookUps).map(([name, of]) => [name, bindLookUp(sql, of)]);
  return Object.fromEntries(bound) as ReturnType<typeof bindLookUps<LookUps>>;
}

function bindLookUp<Row, Found>(
  sql: ReadSql,
  { postgres, toFound }: LookUp<Row, Found>,
): (key: string) => Promise<Found | null> {
  const find = turnLookUp((keys) => sql.all<Row & Keyed>(postgres, [keys]));
  return async (key) => {
    const row = await find(key);
    return row === undefined ? null : toFound(row);
  };
}

/** Runs a use case. */
export async function runOn<Result>(
  sql: ReadSql | BatchSql,
  useCase: UseCase<Result>,
): Promise<Result> {
  let step = useCase.next();
  while (step.done !== true) {
    const request = step.value;
    const result = isCall(request)
      ? call(sql, request)
      : Promise.all(request.map((part) => runOn(sql, part)));
    step = useCase.next(typeof result === "object" ? await result : result);
  }
  return step.value;
}

/** No promise for a statement without a result. */
function call(
  sql: ReadSql | BatchSql,
  { kind, statement, values }: Call,
): Promise<unknown> | NoResult {
  if (statement.postgres === null) return NO_RESULTS[kind];
  const { text, names, ids } = statement.postgres;
  const bound = names.map((name): SqlValue => {
    const value = values[name];
    if (value === undefined) throw new Error(`the parameter ${name} has no value`);
    return ids.has(name) ? toIds(value) : value;
  });
  if (kind === "all") return sql.all(text, bound);
  if (kind === "within") return sql.all<SizedRow>(text, bound).then(takeWithin);
  if (kind === "get") return sql.get(text, bound);
  if (!("send" in sql)) throw new Error("a read cannot write");
  if (kind === "run") return sql.run(text, bound);
  sql.send(text, bound);
  return undefined;
}

function toIds(value: SqlValue): SqlValue {
  if (typeof value === "string") return toUuid(value);
  return Array.isArray(value) ? value.map((each) => toUuid(String(each))) : value;
}
