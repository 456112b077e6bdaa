import { closeSync, createReadStream, fstatSync, openSync, readSync } from "node:fs";
import { createInterface } from "node:readline";

import type { Program } from "../kit/daemon.ts";
import { until } from "../kit/until.ts";

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

// What changes a file, makes it durable, or says something to somebody. A name with `?` is unknown on some processors.
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

const POLL_MS = 5;
const TAIL_BYTES = 65_536;

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
 * last. The time line goes on where `firstLine` says. Answers the number of the next line.
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
