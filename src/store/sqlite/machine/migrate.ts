import type { TellProgress } from "../../../domain/log.ts";
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

/** Whoever waits for a migration. */
export interface MigrationWatch {
  /** Called before it begins, because it takes a while (measured: 7 s for a million tasks in 0.9 GB). */
  readonly begins: (start: MigrationStart) => void;
  readonly tell: TellProgress;
}

/** True for a file that an older program made: a new one has nothing to migrate. */
export function isOutdated(connection: Connection, { version }: MigrationPlan): boolean {
  const found = versionOf(connection);
  return found > 0 && found < version;
}

/**
 * Brings the file to the plan's version in one transaction: forward only, as a whole or not at all. An older file is
 * copied first ({@link findMigrationCopy}). A file that is newer than the program is refused.
 */
export function migrate(connection: Connection, plan: MigrationPlan, watch?: MigrationWatch): void {
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
    watch?.begins({ from: found, to: plan.version, copy: copy.path });
    if (!copy.isThere) makeMigrationCopy(connection, copy.path);
  }
  migrateCopied(connection, plan, watch?.tell);
}

/** Brings a file to the plan's version that is a copy itself, or has one. One of that version stays as it is. */
export function migrateCopied(
  connection: Connection,
  plan: MigrationPlan,
  tell: TellProgress = () => {},
): void {
  connection
    .transaction(() => {
      // Another process may have migrated the file between the look and the lock.
      const current = versionOf(connection);
      if (current === plan.version) return;
      const steps = stepsFrom(current, plan);
      for (const [i, sql] of steps.entries()) {
        connection.exec(sql);
        // A new file has no step.
        if (current > 0) tell({ part: "migration steps", done: i + 1, of: steps.length });
      }
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
