import type { Connection } from "./connection.ts";
import { findMigrationCopy, makeMigrationCopy } from "./migration-copy.ts";
import { findMoveMark } from "./moved.ts";

/** A step that brings a file from version `to - 1` to version `to`. */
export interface Migration {
  readonly to: number;
  readonly sql: string;
}

/** The schema of a new file, and the steps that bring an older one to the same. */
export interface MigrationPlan {
  readonly schemaSql: string;
  readonly version: number;
  readonly migrations: readonly Migration[];
}

/** {@link migrate} is about to bring a file that an older program made from one version to another. */
export interface MigrationStart {
  readonly from: number;
  readonly to: number;
  /** The path of the copy of the unchanged file. */
  readonly copy: string;
}

/** True for a file that an older program made: a new one has nothing to migrate. */
export function isOutdated(connection: Connection, { version }: MigrationPlan): boolean {
  const found = versionOf(connection);
  return found > 0 && found < version;
}

/**
 * Brings the file to the plan's version in one transaction: forward only, as a whole or not at all. An older file is
 * copied first ({@link findMigrationCopy}). `begins` is called before that, because it takes a while (measured: 7 s for
 * a million tasks in 0.9 GB). A file that is newer than the program is refused.
 */
export function migrate(
  connection: Connection,
  plan: MigrationPlan,
  begins?: (start: MigrationStart) => void,
): void {
  const found = versionOf(connection);
  if (found === plan.version) return;
  const moved = findMoveMark(connection);
  if (moved !== null) {
    throw new Error(
      `${connection.name} was moved to ${moved.to}: start postbackd with that. If the move was broken off, run it again`,
    );
  }
  if (found > plan.version) {
    throw new Error(
      `${connection.name} has schema version ${found}, this program knows ${plan.version}: start it with a newer postbackd`,
    );
  }
  if (found > 0) {
    const copy = findMigrationCopy(connection, found);
    begins?.({ from: found, to: plan.version, copy: copy.path });
    if (!copy.isThere) makeMigrationCopy(connection, copy.path);
  }
  migrateCopied(connection, plan);
}

/** Brings a file to the plan's version that is a copy itself, or has one. One of that version stays as it is. */
export function migrateCopied(connection: Connection, plan: MigrationPlan): void {
  connection
    .transaction(() => {
      // Another process may have migrated the file between the look and the lock.
      const current = versionOf(connection);
      if (current === plan.version) return;
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
