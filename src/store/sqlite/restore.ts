import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  realpathSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname } from "node:path";

import type { TellProgress } from "../../domain/log.ts";
import { auditWrites } from "../sql/audit.ts";
import { CopyError, type SoundCopy, checkCopy, type CopyFacts, sha256Of } from "./copy-check.ts";
import { openDatabase, syncToDisk } from "./machine/connection.ts";
import { placeOf, restorePart } from "./machine/file-check.ts";
import { InstanceLock } from "./machine/instance-lock.ts";
import { giveToOwner, refuseOpenElsewhere, refuseSecondName } from "./machine/open-files.ts";
import type { CopyWatch } from "./machine/snapshot-copy.ts";
import { bindUseCases } from "./use-cases.ts";

/** The fate of the webhooks that wait in a copy: they are paused until the operator resumes them, or sent. */
export type RestoredDeliveries = "pause" | "resume";

export interface Restoration {
  /** The copy, which stays as it is. */
  readonly copy: string;
  /** The database file that it becomes. */
  readonly database: string;
  /** Asked once the copy is known to be whole, before anything is changed. */
  readonly decide: (copy: SoundCopy) => Promise<RestoredDeliveries>;
  readonly now: number;
  /** The user who is recorded for the pause. */
  readonly user: string;
  readonly tell?: TellProgress;
}

export interface Restored {
  readonly facts: CopyFacts;
  readonly deliveries: RestoredDeliveries;
  /** The new paths of the old file, its -wal and its -shm, as far as these existed. */
  readonly setAside: readonly string[];
}

const PAUSE_REASON = "restored from a backup";

/**
 * Replaces a database that no daemon serves by a backup. The existing file, with its -wal and -shm, keeps its content
 * under a name with the time. Broken off at any point, the copy has not been installed or is whole, and no start makes
 * an empty database meanwhile. Rejects with an InstanceLockError when the database is served, with a {@link CopyError}
 * when the copy is not whole.
 */
export async function restoreCopy(restoration: Restoration): Promise<Restored> {
  const { copy, database, decide, now } = restoration;
  if (isSame(copy, database)) throw new CopyError(`${copy} is the database itself`);
  refuseSecondName(database);
  refuseOpenElsewhere(database);
  const lock = InstanceLock.acquire(database);
  try {
    const sound = checkFor(restoration);
    const deliveries = await decide(sound);
    const place = placeOf(database);
    const part = restorePart(place);
    makePart(part, { sound, deliveries, restoration });
    // From here on the part stays in any case: without it a start would create an empty database.
    const setAside = putAside(place, now);
    renameSync(part, place);
    syncToDisk(dirname(place));
    return { facts: sound, deliveries, setAside };
  } finally {
    lock.release();
  }
}

/** The error of a refused backup states that nothing was changed. */
function checkFor(restoration: Restoration): SoundCopy {
  try {
    return checkCopy(restoration.copy, watchOf(restoration));
  } catch (error) {
    if (!(error instanceof CopyError)) throw error;
    throw new CopyError(`${error.message}; the database was not changed`, { cause: error });
  }
}

interface Decided {
  readonly sound: SoundCopy;
  readonly deliveries: RestoredDeliveries;
  readonly restoration: Restoration;
}

/** Makes what takes the place of the database, whole and on disk. */
function makePart(part: string, { sound, deliveries, restoration }: Decided): void {
  const { copy } = restoration;
  try {
    // A new name: in a folder of another user a known name may lead anywhere.
    rmSync(part, { force: true });
    copyFileSync(copy, part, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    chmodSync(part, 0o600);
    if (sha256Of(part, watchOf(restoration)) !== sound.sha256)
      throw new CopyError(`${copy} changed while it was read`);
    if (deliveries === "pause") pauseDeliveries(part, restoration);
    giveToOwner(part, restoration.database);
    syncToDisk(part);
  } catch (error) {
    for (const suffix of ["", "-journal"]) rmSync(part + suffix, { force: true });
    throw error;
  }
}

function watchOf({ tell = () => {} }: Restoration): CopyWatch {
  return { check() {}, tell };
}

function isSame(copy: string, database: string): boolean {
  return existsSync(copy) && existsSync(database) && realpathSync(copy) === realpathSync(database);
}

const PAUSE_ALL = `
  INSERT INTO delivery_pauses (account_seq, host, since, reason, paused_by)
  SELECT NULL, NULL, ?, ?, ?
  WHERE NOT EXISTS (SELECT 1 FROM delivery_pauses WHERE account_seq IS NULL AND host IS NULL)`;

/** Pauses all webhooks of a copy. */
function pauseDeliveries(part: string, { now, user }: Restoration): void {
  const connection = openDatabase(part, { fileMustExist: true, timeout: 0 });
  try {
    connection.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;");
    const pause = connection.prepare(PAUSE_ALL);
    const { noteAudit } = bindUseCases(connection, auditWrites);
    const actor = { kind: "user", name: user, address: null } as const;
    const details = { reason: PAUSE_REASON };
    connection.transaction(() => {
      if (pause.run(now, PAUSE_REASON, user).changes === 0) return;
      noteAudit({ at: now, actor, action: "delivery.paused", subject: null, details });
    })();
  } finally {
    connection.close();
  }
}

/** Renames the old file and what belongs to it. The file goes first: without it, no start takes its -wal for empty. */
function putAside(place: string, now: number): readonly string[] {
  const aside = freeName(`${place}.replaced-${stampOf(now)}`);
  const found = ["", "-wal", "-shm", "-journal"].filter((suffix) => existsSync(place + suffix));
  for (const suffix of found) renameSync(place + suffix, aside + suffix);
  if (found.length > 0) syncToDisk(dirname(place));
  return found.map((suffix) => aside + suffix);
}

function freeName(wanted: string): string {
  for (let number = 1; ; number++) {
    const name = number === 1 ? wanted : `${wanted}.${number}`;
    if (!existsSync(name) && !existsSync(`${name}-wal`)) return name;
  }
}

/** A time for names of files: `20300131T090000Z`. */
function stampOf(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
}
