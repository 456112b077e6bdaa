import type { TestContext } from "node:test";

import { z } from "zod";

import { Connection } from "../../src/store/postgres/machine/connection.ts";
import { setUp } from "../../src/store/postgres/machine/dialer.ts";
import { parseServerAddress } from "../../src/store/postgres/machine/server-address.ts";

const DEADLINE_MS = 60_000;

/** The fields of a step of a plan that tests read. */
export interface PlanStep {
  readonly "Node Type": string;
  readonly "Plan Rows": number;
  readonly "Relation Name"?: string | undefined;
  readonly "Index Name"?: string | undefined;
  readonly "Index Cond"?: string | undefined;
  readonly Filter?: string | undefined;
  readonly Plans?: readonly PlanStep[] | undefined;
}

const planStep: z.ZodType<PlanStep> = z.lazy(() =>
  z.object({
    "Node Type": z.string(),
    "Plan Rows": z.number(),
    "Relation Name": z.string().optional(),
    "Index Name": z.string().optional(),
    "Index Cond": z.string().optional(),
    Filter: z.string().optional(),
    Plans: z.array(planStep).optional(),
  }),
);

const plans = z.tuple([z.object({ Plan: planStep })]);

/** Explains statements as nodes prepare them: one plan for all values. */
export class Planner {
  readonly #connection: Connection;
  #statements = 0;

  private constructor(connection: Connection) {
    this.#connection = connection;
  }

  static async open(t: TestContext, url: string): Promise<Planner> {
    const [host] = parseServerAddress(url).hosts;
    const connection = await Connection.open(host ?? {}, DEADLINE_MS);
    await setUp(connection, { deadlineMs: DEADLINE_MS, statementMs: 0, lockMs: 0, mayLose: false });
    t.after(() => connection.close());
    await connection.command("SET plan_cache_mode = force_generic_plan");
    return new Planner(connection);
  }

  /** The plan as text. */
  async text(statement: string, values: string): Promise<string> {
    const lines = await this.#explain(statement, `EXECUTE @ ${values}`);
    return lines.join("\n");
  }

  /** The last step of the plan, with NULL for each value. */
  async tree(statement: string): Promise<PlanStep> {
    const numbers = [...statement.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n));
    const nulls = Array.from({ length: Math.max(0, ...numbers) }, () => "NULL").join(", ");
    const [json] = await this.#explain(
      statement,
      `(FORMAT JSON) EXECUTE @ ${nulls && `(${nulls})`}`,
    );
    return plans.parse(json)[0].Plan;
  }

  async #explain(statement: string, how: string): Promise<readonly unknown[]> {
    const name = `plan_${this.#statements++}`;
    await this.#connection.command(`PREPARE ${name} AS ${statement}`);
    const rows = await this.#connection.all<Record<string, unknown>>(
      `EXPLAIN ${how.replace("@", name)}`,
    );
    await this.#connection.command(`DEALLOCATE ${name}`);
    return rows.flatMap((row) => Object.values(row));
  }
}
