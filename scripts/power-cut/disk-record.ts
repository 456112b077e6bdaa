import { closeSync, createReadStream, fstatSync, openSync, readFileSync, readSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";

import type { Program } from "../kit/daemon.ts";
import { until } from "../kit/until.ts";
import { type DiskChange, FileContent, type Moment } from "./disk.ts";

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

/** A system call that strace saw. */
export interface TracedCall {
  readonly name: string;
  /** The text between its parentheses; every string in it is written as `\x2f\x74…`. */
  readonly args: string;
  /** Its return value; null when the process ended before it returned. */
  readonly result: number | null;
  /** The numbers of the lines that tell of its beginning and of its end: the time line. Without an end, Infinity. */
  readonly begun: number;
  readonly over: number;
  /** When it began, in epoch milliseconds. */
  readonly at: number;
}

// System calls that change a file, make it durable, or send data. A name with `?` is unknown on some processors.
const TRACED_CALLS = [
  "openat",
  "?open",
  "?creat",
  "write",
  "writev",
  "pwrite64",
  "pwritev",
  "pwritev2",
  "ftruncate",
  "truncate",
  "fallocate",
  "fsync",
  "fdatasync",
  "?unlink",
  "unlinkat",
  "?rename",
  "?renameat",
  "renameat2",
];

// Longer than anything that SQLite writes in one call: its pages have 64 KiB at most.
const STRING_BYTES_MAX = 70_000;

/**
 * The program, traced into that file. strace runs as a grandchild, so that the process that is started, waited for and
 * killed is the program itself.
 */
export function tracedProgram({ name, command }: Program, traceFile: string): Program {
  const calls = `trace=${TRACED_CALLS.join(",")}`;
  const how = ["--daemonize", "--follow-forks", "--seccomp-bpf", "--quiet=attach,personality"];
  const text = ["--strings-in-hex=all", "--string-limit", String(STRING_BYTES_MAX)];
  const facts = ["--decode-fds=path", "--absolute-timestamps=unix,us", "-e", calls];
  const strace = ["strace", ...how, ...text, ...facts, "--output", traceFile] as const;
  return { name, command: ["strace", ...strace.slice(1), ...command] };
}

const POLL_MS = 20;
// Other threads may write after the end of the process, each a last call: a page in hexadecimal has up to 280 KB.
const TAIL_BYTES = 1024 * 1024;

/** Settles once the trace tells of the end of the process that was started. Rejects when it does not get there. */
export async function traceEnd(traceFile: string, msMax: number): Promise<void> {
  const fault = (): string => `strace did not finish ${traceFile}`;
  await until(() => hasEnd(traceFile), { msMax, everyMs: POLL_MS, fault });
}

function hasEnd(traceFile: string): boolean {
  const file = openSync(traceFile, "r");
  try {
    const { size } = fstatSync(file);
    const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES));
    const headBytes = readSync(file, buffer, 0, 16, 0);
    const [pid = ""] = buffer.toString("latin1", 0, headBytes).split(" ", 1);
    const tailBytes = readSync(file, buffer, 0, buffer.length, size - buffer.length);
    const tail = buffer.toString("latin1", 0, tailBytes);
    return pid !== "" && new RegExp(`^${pid} .*\\+\\+\\+$`, "m").test(tail);
  } finally {
    closeSync(file);
  }
}

const LINE = /^(\d+) +(\d+\.\d+) (.*)$/s;
const UNFINISHED = " <unfinished ...>";
const RESUMED = /^<\.\.\. \w+ resumed>/;
const RETURNED = /^(\w+)\((.*)\) += (-?\d+|\?)/s;

/** A call that has begun and is not over. */
interface OpenCall {
  readonly text: string;
  readonly begun: number;
  readonly at: number;
}

/**
 * Reads the calls of a trace, in the order in which they were over; those that the end of the process cut off come
 * last. The time line goes on where `firstLine` says. Returns the number of the next line.
 */
export async function* readTrace(
  traceFile: string,
  firstLine = 0,
): AsyncGenerator<TracedCall, number> {
  const open = new Map<string, OpenCall>();
  const lines = createInterface({ input: createReadStream(traceFile, "latin1") });
  let number = firstLine;
  for await (const line of lines) {
    const call = readLine(line, { number: number++, open });
    if (call !== null) yield call;
  }
  for (const { text, begun, at } of open.values()) {
    const [name = "", args = ""] = splitOnce(text, "(");
    yield { name, args, result: null, begun, over: Infinity, at };
  }
  return number;
}

function readLine(
  line: string,
  { number, open }: { readonly number: number; readonly open: Map<string, OpenCall> },
): TracedCall | null {
  const [, pid = "", seconds, rest = ""] = LINE.exec(line) ?? [];
  const at = Number(seconds) * 1000;
  if (rest.endsWith(UNFINISHED)) {
    open.set(pid, { text: rest.slice(0, -UNFINISHED.length), begun: number, at });
    return null;
  }
  const resumed = RESUMED.exec(rest);
  const before = resumed === null ? null : (open.get(pid) ?? null);
  if (resumed !== null && before === null) return null;
  if (before !== null) open.delete(pid);
  const text = before === null ? rest : before.text + rest.slice(resumed?.[0].length);
  const [, name, args, result] = RETURNED.exec(text) ?? [];
  // A signal, or the end of a process.
  if (name === undefined || args === undefined) return null;
  const { begun, at: begunAt } = before ?? { begun: number, at };
  if (result === "?") return { name, args, result: null, begun, over: Infinity, at: begunAt };
  return { name, args, result: Number(result), begun, over: number, at: begunAt };
}

function splitOnce(text: string, at: string): readonly string[] {
  const index = text.indexOf(at);
  return index === -1 ? [text] : [text.slice(0, index), text.slice(index + at.length)];
}

/** The bytes that strace writes as `\x2f\x74…`. */
export function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.replaceAll("\\x", ""), "hex");
}

/** As strace writes the bytes of a text. */
export function hexOf(text: string): string {
  return Buffer.from(text).toString("hex").replaceAll(/../g, "\\x$&");
}
