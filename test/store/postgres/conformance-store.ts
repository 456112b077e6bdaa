import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { ERASE_EMPTY_HOSTS } from "../../../src/store/postgres/counts.ts";
import { Connection } from "../../../src/store/postgres/machine/connection.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { CHANGES_OF_PARTS } from "../../../src/store/sql/clock.ts";
import { LARGE_TABLES, fillDatabase } from "../../helpers/postgres-filling.ts";
import { askDatabase } from "../../helpers/postgres-nodes.ts";
import { type PlanStep, Planner } from "../../helpers/postgres-plans.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { pluck } from "../../helpers/store.ts";
import { type OpenedStore, type StoreLimits, exerciseStore } from "../conformance.ts";

const PARTS = 3;

/** Holds the store on PostgreSQL to a part of the suite: in one process it would be the longest file of all. */
export function exercisePart(part: number): void {
  const statements = recordStatements();
  describe("the store on PostgreSQL", { skip: reasonToSkipPostgres() }, () => {
    exerciseStore("postgres", open, (_, place) => place % PARTS === part);
  });
  exercisePlans(statements);
}

async function open(t: TestContext, limits: StoreLimits = {}): Promise<OpenedStore> {
  const url = await newDatabaseUrl(t);
  const again = async (more: StoreLimits = limits) => {
    const store = await openPostgresStore({
      server: parseServerAddress(url),
      kind: "node",
      node: { name: "test", url: null, version: "0" },
      notify: false,
      backlogMax: more.backlogMax ?? 10_000,
      examineMax: more.examineMax,
    });
    t.after(() => store.close());
    return store;
  };
  return { store: await again(), again };
}

/** Notes every statement that connections of this process are asked for from now on. */
function recordStatements(): ReadonlySet<string> {
  const statements = new Set<string>();
  for (const method of ["all", "run"] as const) {
    const run = Reflect.get(Connection.prototype, method);
    Reflect.set(Connection.prototype, method, function (this: Connection, ...args: [string]) {
      statements.add(args[0]);
      return Reflect.apply(run, this, args) as unknown;
    });
  }
  return statements;
}

/** Holds all these statements, once the tests before have run, to plans that read no large table whole. */
function exercisePlans(statements: ReadonlySet<string>): void {
  const options = { skip: reasonToSkipPostgres() };
  test("no statement that was run reads a large table whole, or sorts it", options, async (t) => {
    const url = await newDatabaseUrl(t);
    const asked = [...statements].filter((text) =>
      /^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b/.test(text),
    );
    assert.ok(asked.length > 50, `only ${asked.length} statements were run before`);
    await fillDatabase(url);
    const planner = await Planner.open(t, url);

    const judge = new PlanJudge(await findFirstColumns(url));

    const found: string[] = [];
    for (const text of asked.filter((statement) => !isExcepted(statement))) {
      const faults = judge.faultsOf(await planner.tree(text));
      const first = oneLine(text).slice(0, SHOWN);
      if (faults.length > 0) found.push(`${faults.join("; ")} in ${first}`);
    }

    assert.deepEqual(found, []);
  });
}

// So much of a statement is shown.
const SHOWN = 300;

// A sort may have a part of a large table: the smallest large table has more rows.
const SORTED_MAX = 4000;

/** Indexes of what is under way, which is bounded by how much may be at a time. */
const SMALL_INDEXES: readonly unknown[] = [
  "queue_runs",
  "queue_leases",
  "queue_held",
  "outbox_in_flight",
];

/** Statements that may do what others must not, by a part of their text, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    CHANGES_OF_PARTS.map(({ postgres }) => [
      postgres?.text ?? "",
      "the machine's clock was set, or a delay made shorter: whole tables change, part by part",
    ]),
  ),
  [ERASE_EMPTY_HOSTS]: "once an hour, one node reads all hosts",
  "WHERE q.due_at <= $3 ORDER BY q.place, o.retry > 0": "sorts what one claim may start",
  "SELECT account_seq, at, stripe FROM traffic": "sorts within each minute, up to its limit",
  "SELECT count(*) AS count FROM outbox WHERE started_at IS NULL AND ($1::bigint IS NULL":
    "runs once for a pause or resume: all scheduled attempts are counted",
  "FROM task_counts WHERE word = 'queued'": "once a minute, one node reads all accounts",
};

function isExcepted(statement: string): boolean {
  return Object.keys(EXCEPTIONS).some((part) => oneLine(statement).includes(oneLine(part)));
}

function oneLine(text: string): string {
  return text.trim().replaceAll(/\s+/g, " ");
}

/** The first column of each index, by the index's name. */
async function findFirstColumns(url: string): Promise<ReadonlyMap<string, string>> {
  const rows = await askDatabase<{ index: string; column: string }>(
    url,
    `SELECT c.relname AS index, pg_get_indexdef(c.oid, 1, false) AS column FROM pg_class AS c
     WHERE c.relkind = 'i' AND c.relnamespace = to_regnamespace(current_schema())`,
  );
  return new Map(pluck(rows, "index", "column"));
}

/** Finds what is wrong in plans of statements, in words. */
class PlanJudge {
  readonly #firstColumns: ReadonlyMap<string, string>;

  constructor(firstColumns: ReadonlyMap<string, string>) {
    this.#firstColumns = firstColumns;
  }

  faultsOf(step: PlanStep, above?: PlanStep): readonly string[] {
    const below = (step.Plans ?? []).flatMap((each) => this.faultsOf(each, step));
    const fault = this.#faultOf(step, above);
    return fault === null ? below : [fault, ...below];
  }

  #faultOf(step: PlanStep, above: PlanStep | undefined): string | null {
    const { "Node Type": type, "Relation Name": table = "", "Index Name": index } = step;
    if (/^(Incremental )?Sort$/.test(type) && step["Plan Rows"] > SORTED_MAX) {
      return `a sort of ${step["Plan Rows"]} rows`;
    }
    if (!LARGE_TABLES.has(table)) return null;
    if (type === "Seq Scan") return `all of ${table}`;
    if (index === undefined || this.#isSought(index, step["Index Cond"] ?? "")) return null;
    // The first rows in the order of an index.
    if (above?.["Node Type"] === "Limit" && step.Filter === undefined) return null;
    return SMALL_INDEXES.includes(index) ? null : `all of ${index}`;
  }

  /** True where an index is read from some place on: a condition of its later columns alone reads all of it. */
  #isSought(index: string, condition: string): boolean {
    const column = this.#firstColumns.get(index) ?? "";
    return new RegExp(`\\b${column}\\b`).test(condition);
  }
}
