import {
  type BigIntStats,
  type Stats,
  closeSync,
  fchownSync,
  lchownSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { dirname, resolve } from "node:path";

import { codeOf } from "../../../domain/error.ts";
import type { FileTrouble } from "../../store-error.ts";

/** The database file, and the files that SQLite keeps beside it while it is open. */
const SUFFIXES = ["", "-wal", "-shm"] as const;

interface NotedFile {
  readonly path: string;
  readonly name: string;
  readonly stats: BigIntStats;
}

/**
 * Remembers the files that were open when this was made, by device and inode. SQLite goes on with files that were
 * removed or replaced: its commits then land where no restart finds them.
 */
export class OpenFiles {
  readonly #noted: readonly NotedFile[];

  /** To be made once the database is open: SQLite then keeps all of its files until it is closed. */
  constructor(file: string) {
    // SQLite follows symbolic links, and keeps -wal and -shm beside the target.
    const real = realpathSync(file);
    this.#noted = SUFFIXES.flatMap((suffix) => {
      const stats = look(real + suffix);
      if (typeof stats === "string") return [];
      const name = suffix === "" ? "the database file" : `the ${suffix} file of the database`;
      return [{ path: suffix === "" ? file : real + suffix, name, stats }];
    });
  }

  /** Returns what was done to one of them; null while each is in its place and the same. */
  trouble(): FileTrouble | null {
    for (const noted of this.#noted) {
      const trouble = troubleOf(noted);
      if (trouble !== null) return trouble;
    }
    return null;
  }
}

const PUT_BACK =
  "stop the daemon, put the file back together with the -wal that belongs to it, or put a copy in its place with " +
  "'postbackd backup restore COPY', then start again";

function troubleOf({ path, name, stats }: NotedFile): FileTrouble | null {
  const now = look(path);
  // A disk that does not answer has not lost the file.
  if (now === "unknown") return null;
  if (now === "missing") {
    return { reason: `${name} was removed while it was served`, remedy: PUT_BACK };
  }
  if (now.dev !== stats.dev || now.ino !== stats.ino) {
    return { reason: `${name} was replaced while it was served`, remedy: PUT_BACK };
  }
  if (now.nlink <= 1n) return null;
  return {
    reason: `${name} was given a second name (a hard link) while it was served`,
    remedy: "stop the daemon, remove the other name, then start again",
  };
}

function look(path: string): BigIntStats | "missing" | "unknown" {
  try {
    return statSync(path, { bigint: true });
  } catch (error) {
    const code = codeOf(error);
    return code === "ENOENT" || code === "ENOTDIR" ? "missing" : "unknown";
  }
}

/**
 * Refuses a file that could be served a second time under another name. `-wal`, `-shm` and the lock file are found by
 * path, in the file's own folder. A second name would have others, and both together destroy the file. The folder and
 * the name of a file that passes identify it, over any path and mount to the folder.
 */
export function refuseSecondName(file: string): void {
  refuseForeignLinks(file);
  const stats = look(file);
  if (typeof stats === "string") return;
  if (stats.isFile() && stats.nlink > 1n) {
    throw new Error(
      `${file} has a second name (a hard link): a second daemon could serve it under that name and destroy it: ` +
        `remove the other name (find it with: find FOLDER -inum ${stats.ino}), or serve a copy`,
    );
  }
  if (mountPoints().has(realpathSync(file))) {
    throw new Error(
      `${file} is mounted by itself, so that its -wal and its lock lie outside the mount, where others do not see them ` +
        "and what was acknowledged can be lost: mount the folder that holds the file",
    );
  }
}

/** The mount points of this process; empty if the system does not list them. */
function mountPoints(): ReadonlySet<string> {
  const lines = readProc("/proc/self/mountinfo");
  return new Set(lines.map((line) => unescapeOctal(line.split(" ")[4] ?? "")));
}

// Spaces and similar characters are written as \040; the text was read as bytes.
function unescapeOctal(text: string): string {
  const bytes = text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
  return Buffer.from(bytes, "latin1").toString();
}

const TRIES = 25;
const PAUSE_MS = 20;

/**
 * Refuses a file that another process has open under another name, because the file was renamed since. Every process
 * that has a database open in WAL mode keeps one lock on it and one on its -shm. A process that locks the file, but not
 * the -shm beside this path, has another -shm. The kernel lists locks by inode, with the processes that this process
 * may see.
 */
export function refuseOpenElsewhere(file: string): void {
  for (let triesLeft = TRIES; ; triesLeft--) {
    const [pid] = pidsElsewhere(file);
    if (pid === undefined) return;
    if (triesLeft === 0) {
      throw new Error(
        `${file} is open in process ${pid} under another name, and served twice it would be destroyed: stop that process, ` +
          "move the file back together with its -wal, or name another file with --db",
      );
    }
    // It may be an admin command that is just opening or closing the file.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
  }
}

function pidsElsewhere(file: string): readonly number[] {
  const stats = look(file);
  if (typeof stats === "string") return [];
  const locks = readProc("/proc/locks");
  const real = realpathSync(file);
  const shm = look(`${real}-shm`);
  const here = new Set(typeof shm === "string" ? [] : holdersOf(shm, locks));
  return holdersOf(stats, locks).filter((pid) => pid !== process.pid && !here.has(pid));
}

/** The processes that hold a POSIX lock on a file. */
function holdersOf({ dev, ino }: BigIntStats, locks: readonly string[]): readonly number[] {
  const name = `${hex(majorOf(dev))}:${hex(minorOf(dev))}:${ino}`;
  return locks.flatMap((line) => {
    // "1: POSIX  ADVISORY  READ 16712 fe:00:2146473 1073741826 1073742335"; "->" marks those who wait.
    const [, kind, , , pid, where] = line.split(/ +/);
    return kind === "POSIX" && where === name ? [Number(pid)] : [];
  });
}

// Takes a device number apart as the C library does.
function majorOf(dev: bigint): bigint {
  return ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn);
}

function minorOf(dev: bigint): bigint {
  return (dev & 0xffn) | ((dev >> 12n) & ~0xffn);
}

function hex(number: bigint): string {
  return number.toString(16).padStart(2, "0");
}

function readProc(path: string): readonly string[] {
  try {
    return readFileSync(path, "latin1").split("\n");
  } catch {
    // Another system, or one that hides it.
    return [];
  }
}

/**
 * Gives files that root created next to a database to the owner of the database, or of its folder if the database does
 * not exist yet. Otherwise the daemon could not open them. Does nothing for other users.
 */
export function giveToOwner(file: string, database: string): void {
  const owner = ownerFor(database);
  if (owner !== null) lchownSync(file, owner.uid, owner.gid);
}

/**
 * Makes an empty file for SQLite to open, if it is missing; root gives it to the owner of the database. Throws if a link
 * has its name: SQLite would follow the link and make a file wherever it leads.
 */
export function makeForOwner(file: string, database: string): void {
  try {
    // Never opens a file that is there: closing it would drop the locks that this process has on it.
    const descriptor = openSync(file, "wx", 0o600);
    const owner = ownerFor(database);
    if (owner !== null) fchownSync(descriptor, owner.uid, owner.gid);
    closeSync(descriptor);
  } catch (error) {
    // SQLite's own open reports everything else.
    if (codeOf(error) !== "EEXIST") return;
    if (lstatSync(file).isSymbolicLink()) {
      throw new Error(`${file} is a symbolic link: remove it`, { cause: error });
    }
  }
}

/**
 * Refuses, as root, a database whose file, `-wal`, `-shm` or journal is behind a link of another user. That user may aim
 * the link at any file of the system.
 */
function refuseForeignLinks(database: string): void {
  if (process.geteuid?.() !== 0) return;
  const { end, foreign } = followLinks(database);
  const beside = ["-wal", "-shm", "-journal"].map(
    (suffix) => followLinks((end ?? database) + suffix).foreign,
  );
  const [link] = [foreign, ...beside].filter((each) => each !== null);
  if (link === undefined) return;
  throw new Error(
    `${link.path} is a symbolic link of user ${link.stats.uid}, which root does not follow: name the file itself, or run ` +
      "this as that user",
  );
}

interface Links {
  /** The first name on the way that is not a link; a file may be missing there. Null for links that lead in a circle. */
  readonly end: string | null;
  /** The first link on the way that another user than root made. */
  readonly foreign: { readonly path: string; readonly stats: Stats } | null;
}

/** Follows the links from this name, also to a file that is missing. */
export function followLinks(file: string): Links {
  let end = file;
  let foreign: Links["foreign"] = null;
  for (let linksLeft = LINKS_MAX; linksLeft > 0; linksLeft--) {
    const folder = dirname(end);
    // Below a file, lstat throws.
    const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
    const stats = isThere ? lstatSync(end, { throwIfNoEntry: false }) : undefined;
    if (stats?.isSymbolicLink() !== true) return { end, foreign };
    if (stats.uid !== 0) foreign ??= { path: end, stats };
    end = resolve(realpathSync(folder), readlinkSync(end));
  }
  return { end: null, foreign };
}

// As in Linux.
const LINKS_MAX = 40;

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Null where it is this user's anyway. */
function ownerFor(database: string): Owner | null {
  if (process.geteuid?.() !== 0) return null;
  const found =
    statSync(database, { throwIfNoEntry: false }) ??
    statSync(dirname(database), { throwIfNoEntry: false });
  return found === undefined || found.uid === 0 ? null : found;
}
