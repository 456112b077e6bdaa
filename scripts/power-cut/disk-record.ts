import { readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import type { DiskChange, Moment } from "./disk-change.ts";
import { FileContent } from "./file-content.ts";
import { bytesOf, hexOf, readTrace, type TracedCall } from "./strace.ts";

/** One process that wrote to the database. */
export interface TracedLife {
  readonly traceFile: string;
  /** A copy of the database's files as the process left them. */
  readonly snapshot: string;
}

// How the daemon's answers and webhooks are found in what it wrote: the receiver's and the client's names for them.
const REQUEST_ID = hexOf("x-request-id: ");
const WEBHOOK_ID = hexOf("webhook-id: ");
const ATTEMPT = hexOf("x-attempt: ");
const LINE_END = hexOf("\r\n");

const OPEN_FLAGS = /, (O_[A-Z_|]+)/;
const STRING = /"((?:\\x[0-9a-f]{2})*)"/g;
const DESCRIPTOR = /^\d+<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?/;

/** The changes of the disk and the daemon's words, on one time line. */
export class DiskRecord {
  readonly changes: DiskChange[] = [];
  /** The positions of the daemon's words: answers by their X-Request-Id, webhooks by webhook-id and attempt. */
  readonly said = new Map<string, number>();
  /** The position where each life begins. */
  readonly lifeStarts: number[] = [];
  /** The end of the time line. */
  end = 0;
  readonly #database: string;
  readonly #folder: string;
  /** The files that there are, by name. */
  readonly #files = new Map<string, number>();
  readonly #contents: FileContent[] = [];

  private constructor(database: string) {
    this.#database = database;
    this.#folder = dirname(database);
  }

  /**
   * Reads the traces of all lives of a database, the first of which made it. Rejects when what they tell does not
   * amount to the files as each life left them: then something wrote that strace was not asked about.
   */
  static async read(database: string, lives: readonly TracedLife[]): Promise<DiskRecord> {
    const record = new DiskRecord(database);
    for (const life of lives) await record.#readLife(life);
    return record;
  }

  /** When the power was cut, in epoch milliseconds. */
  timeOf(cut: number): number {
    const before = this.changes.filter(({ begun }) => begun < cut);
    return Math.max(0, ...before.slice(-100).map(({ at }) => at));
  }

  async #readLife({ traceFile, snapshot }: TracedLife): Promise<void> {
    this.lifeStarts.push(this.end);
    const calls = readTrace(traceFile, this.end);
    const found: DiskChange[] = [];
    let next = await calls.next();
    for (; !next.done; next = await calls.next()) found.push(...this.#changesOf(next.value));
    const end = next.value;
    this.end = end;
    // A write that the end of the process cut off was done or not: the files say it.
    const whole = found.flatMap((change) => {
      return change.over === Infinity ? seenOnDisk(change, { snapshot, end }) : [change];
    });
    whole.sort((a, b) => a.begun - b.begun);
    for (const change of whole)
      if (change.kind === "written" || change.kind === "resized")
        this.#contents[change.file]?.apply(change);
    this.changes.push(...whole);
    this.#compare(snapshot);
  }

  // In the order in which calls were over, which is that in which names came to stand for other files.
  #changesOf(call: TracedCall): readonly DiskChange[] {
    const { name, result } = call;
    if (name === "write" || name === "writev") this.#noteSaid(call);
    if (result !== null && result < 0) return [];
    // Of what the end of the process cut off a write may be done in part; if anything else was, the files will tell.
    if (result === null && name !== "pwrite64") return [];
    switch (name) {
      case "openat":
      case "open":
      case "creat":
        return this.#opened(call);
      case "unlink":
      case "unlinkat":
        return this.#removed(call);
      case "rename":
      case "renameat":
      case "renameat2":
        if (this.#names(call).length === 0) return [];
        throw new Error(`${name} of a file of the database cannot be read: ${call.args}`);
      default:
        return this.#changedByDescriptor(call);
    }
  }

  #opened(call: TracedCall): readonly DiskChange[] {
    const [name] = this.#names(call);
    const flags = OPEN_FLAGS.exec(call.args)?.[1]?.split("|") ?? [];
    if (name === undefined) return [];
    const known = this.#files.get(name);
    if (known === undefined) {
      if (!flags.includes("O_CREAT") && call.name !== "creat") {
        throw new Error(`${name} was there before the record began: begin with an empty folder`);
      }
      const file = this.#contents.length;
      this.#files.set(name, file);
      this.#contents.push(new FileContent());
      return [{ kind: "made", name, file, ...momentOf(call) }];
    }
    if (!flags.includes("O_TRUNC") && call.name !== "creat") return [];
    return [{ kind: "resized", file: known, name, size: 0, ...momentOf(call) }];
  }

  #removed(call: TracedCall): readonly DiskChange[] {
    const [name = ""] = this.#names(call);
    const file = this.#files.get(name);
    if (file === undefined) return [];
    this.#files.delete(name);
    return [{ kind: "removed", name, file, ...momentOf(call) }];
  }

  #changedByDescriptor(call: TracedCall): readonly DiskChange[] {
    const { args, name: callName, result } = call;
    const [whole = "", hex = "", deleted] = DESCRIPTOR.exec(args) ?? [];
    // A file without a name is gone with the power, whatever is written to it.
    if (deleted !== undefined) return [];
    const path = bytesOf(hex).toString();
    const isSync = callName === "fsync" || callName === "fdatasync";
    const moment = momentOf(call);
    if (path === this.#folder) return isSync ? [{ kind: "folder-synced", ...moment }] : [];
    if (!this.#isRecorded(path)) return [];
    const name = basename(path);
    const file = this.#files.get(name);
    if (file === undefined) throw new Error(`${name} is written and was never made`);
    if (isSync) return [{ kind: "synced", file, name, ...moment }];
    const rest = args.slice(whole.length);
    if (callName === "ftruncate") {
      const size = Number(rest.split(", ")[1]);
      return [{ kind: "resized", file, name, size, ...moment }];
    }
    if (callName !== "pwrite64") throw new Error(`${callName} of ${name} cannot be read`);
    const offset = Number(rest.slice(rest.lastIndexOf(", ") + 2));
    const data = bytesOf([...rest.matchAll(STRING)][0]?.[1] ?? "");
    const bytes = result === null ? data : data.subarray(0, result);
    return [{ kind: "written", file, name, offset, data: bytes, ...moment }];
  }

  #noteSaid({ args, begun }: TracedCall): void {
    const requestId = valueOf(args, REQUEST_ID);
    if (requestId !== null) this.said.set(requestId, begun);
    const webhookId = valueOf(args, WEBHOOK_ID);
    if (webhookId !== null) this.said.set(`${webhookId} ${valueOf(args, ATTEMPT)}`, begun);
  }

  /** The files of the database that a call names. */
  #names({ args }: TracedCall): readonly string[] {
    return [...args.matchAll(STRING)]
      .map(([, hex = ""]) => resolve(this.#folder, bytesOf(hex).toString()))
      .filter((path) => this.#isRecorded(path))
      .map((path) => basename(path));
  }

  /** Whether it is one of the database's files that outlive a power cut: the WAL's index is made anew. */
  #isRecorded(path: string): boolean {
    return path.startsWith(this.#database) && !path.endsWith("-shm");
  }

  #compare(snapshot: string): void {
    for (const [name, file] of this.#files) {
      const written = this.#contents[file]?.bytes ?? Buffer.alloc(0);
      if (!written.equals(readFileSync(join(snapshot, name)))) {
        throw new Error(`${name} is not what strace saw being written: see ${snapshot}`);
      }
    }
  }
}

/** A write that the end of the process cut off, as far as it has got; nothing of any other call. */
function seenOnDisk(
  change: DiskChange,
  { snapshot, end }: { readonly snapshot: string; readonly end: number },
): readonly DiskChange[] {
  if (change.kind !== "written") return [];
  const bytes = readFileSync(join(snapshot, change.name));
  const { offset, data } = change;
  const found = bytes.subarray(offset, offset + data.length);
  return found.length === 0 ? [] : [{ ...change, data: found, over: end }];
}

function momentOf({ begun, over, at }: TracedCall): Moment {
  return { begun, over, at };
}

/** The text after `name` on its line. */
function valueOf(args: string, name: string): string | null {
  const at = args.indexOf(name);
  if (at === -1) return null;
  const start = at + name.length;
  return bytesOf(args.slice(start, args.indexOf(LINE_END, start))).toString();
}
