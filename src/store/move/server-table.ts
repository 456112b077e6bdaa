import { messageOf } from "../../domain/error.ts";
import { sqlStateOf, type Connection as Server } from "../postgres/machine/connection.ts";
import type { CopyToServer } from "./copies-to-server.ts";
import type { Scalar } from "./file-writer.ts";
import { MoveError } from "./report.ts";

// Data exceptions and violated constraints.
const IS_OF_A_VALUE = /^2[23]/;

/** Fills a table on the server, inside the transaction of a move. */
export class ServerTable {
  readonly #server: Server;
  readonly #table: string;
  readonly #columns: readonly string[];
  readonly #insert: string;
  #rows = 0;

  constructor(server: Server, { table, columns }: Omit<CopyToServer, "from">) {
    this.#server = server;
    this.#table = table;
    this.#columns = Object.keys(columns);
    this.#insert = insertOf(table, columns);
  }

  /** How many rows were added. */
  get rows(): number {
    return this.#rows;
  }

  /** Adds rows. Rejects with a {@link MoveError} that names the first row that the server refuses. */
  async add(page: readonly Scalar[][]): Promise<void> {
    await this.#server.command("SAVEPOINT page");
    try {
      await this.#run(page);
    } catch (error) {
      throw IS_OF_A_VALUE.test(sqlStateOf(error)) ? await this.#refusal(page, error) : error;
    }
    await this.#server.command("RELEASE SAVEPOINT page");
    this.#rows += page.length;
  }

  #run(rows: readonly Scalar[][]): Promise<number> {
    return this.#server.run(
      this.#insert,
      this.#columns.map((_, i) => rows.map((row) => row[i] ?? null)),
    );
  }

  // PostgreSQL reports which value it refused, but not of which row of the page.
  async #refusal(page: readonly Scalar[][], error: unknown): Promise<MoveError> {
    await this.#server.command("ROLLBACK TO SAVEPOINT page");
    for (const [i, row] of page.entries()) {
      try {
        await this.#run([row]);
      } catch (cause) {
        // Only the first column's number: a text may be a secret.
        const key = typeof row[0] === "number" ? ` (${this.#columns[0]} ${row[0]})` : "";
        return this.#refused(`row ${this.#rows + i + 1}${key}`, cause);
      }
    }
    return this.#refused("rows", error);
  }

  #refused(what: string, cause: unknown): MoveError {
    const message = `table ${this.#table}, ${what}: ${messageOf(cause)}; correct it in the file and move again, nothing was moved`;
    return new MoveError(message, { cause });
  }
}

// `unnest` takes nested arrays apart: those go as text.
function insertOf(table: string, columns: CopyToServer["columns"]): string {
  const entries = Object.entries(columns);
  const isNested = (type: string): boolean => type.endsWith("[]");
  const parameters = entries.map(([, type], i) => `$${i + 1}::${isNested(type) ? "text" : type}[]`);
  const values = entries.map(([name, type]) =>
    isNested(type) ? `a.${name}::${type}` : `a.${name}`,
  );
  const names = entries.map(([name]) => name).join(", ");
  return `
    INSERT INTO ${table} (${names}) SELECT ${values.join(", ")}
    FROM unnest(${parameters.join(", ")}) AS a (${names})`;
}
