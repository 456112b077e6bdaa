import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";

import type { Connection } from "./connection.ts";

/** How to bring a file from version `to - 1` to version `to`. */
export interface Migration {
  readonly to: number;
  readonly sql: string;
}

/** The version that schema.sql describes. */
export const SCHEMA_VERSION = 1;

/** Steps from older files to the current schema, oldest first. Released steps never change. */
export const MIGRATIONS: readonly Migration[] = [];

/** The schema a new file gets, and the steps that bring an older one to the same. */
export interface MigrationPlan {
  readonly schemaSql: string;
  readonly version: number;
  readonly migrations: readonly Migration[];
}

/**
 * Brings the file to the plan's version in one transaction: forward only, whole or not at all. An older
 * file is copied first, to `FILE.vN.bak`; a file that is newer than the program is refused.
 */
export function migrate(connection: Connection, plan: MigrationPlan): void {
  const found = versionOf(connection);
  if (found === plan.version) return;
  if (found > plan.version) {
    throw new Error(
      `${connection.name} has schema version ${found}, this program knows ${plan.version}: start it with a newer postbackd`,
    );
  }
  if (found > 0) snapshot(connection, found);
  connection
    .transaction(() => {
      // Another process may have migrated between the look and the lock.
      const current = versionOf(connection);
      for (const sql of stepsFrom(current, plan)) connection.exec(sql);
      connection.pragma(`user_version = ${plan.version}`);
    })
    .immediate();
}

function versionOf(connection: Connection): number {
  return Number(connection.pragma("user_version", { simple: true }));
}

function stepsFrom(version: number, plan: MigrationPlan): readonly string[] {
  if (version === 0) return [plan.schemaSql];
  const steps = plan.migrations.filter((step) => step.to > version && step.to <= plan.version);
  if (steps.length !== Math.max(plan.version - version, 0)) {
    throw new Error(`no way leads from schema version ${version} to ${plan.version}`);
  }
  return steps.map((step) => step.sql);
}

function snapshot(connection: Connection, version: number): void {
  const copy = `${connection.name}.v${version}.bak`;
  // A copy that is there already was made by an earlier try and is at least as old.
  if (existsSync(copy)) return;
  // Under another name until it is whole: half a copy would be taken for the copy at the next try.
  const part = `${copy}.part`;
  rmSync(part, { force: true });
  connection.prepare("VACUUM INTO ?").run(part);
  chmodSync(part, 0o600);
  renameSync(part, copy);
}
