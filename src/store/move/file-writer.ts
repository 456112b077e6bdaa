import { statSync } from "node:fs";

import type { Connection } from "../sqlite/machine/connection.ts";

/** A value as both databases have it. */
export type Scalar = string | number | null;

// A commit costs an fsync; what is not committed lies in memory, or in the -wal.
const CHARACTERS_MAX = 4 * 1024 * 1024;
const ROWS_MAX = 10_000;
const WAL_BYTES_MAX = 64 * 1024 * 1024;

/** Fills the tables of a new file, in transactions of some megabytes; its `-wal` stays small too. */
export class FileWriter {
  readonly #file: Connection;
  #rows = 0;
  #characters = 0;

  constructor(file: Connection) {
    this.#file = file;
  }

  /** Answers what adds a row to a table: the values of these columns. */
  into(table: string, columns: readonly string[]): (row: readonly Scalar[]) => void {
    const places = columns.map(() => "?").join(", ");
    const insert = this.#file.prepare<Scalar[]>(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places})`,
    );
    return (row) => {
      if (!this.#file.inTransaction) this.#file.exec("BEGIN IMMEDIATE");
      insert.run(...row);
      this.#rows++;
      for (const value of row) if (typeof value === "string") this.#characters += value.length;
      if (this.#rows >= ROWS_MAX || this.#characters >= CHARACTERS_MAX) this.commit();
    };
  }

  /** To be called after the last row. */
  commit(): void {
    this.#rows = 0;
    this.#characters = 0;
    if (this.#file.inTransaction) this.#file.exec("COMMIT");
    const wal = statSync(`${this.#file.name}-wal`, { throwIfNoEntry: false });
    // Nobody else reads the file, so all of it goes over.
    if ((wal?.size ?? 0) > WAL_BYTES_MAX) this.#file.pragma("wal_checkpoint(TRUNCATE)");
  }
}
