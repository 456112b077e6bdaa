import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from "node:fs";

import { timeText } from "../../domain/clock/time.ts";
import { codeOf } from "../../domain/error.ts";
import type { Connection } from "./machine/connection.ts";
import { MIB_BYTES, UNWATCHED, type CopyWatch } from "./machine/copy-pace.ts";

/** Facts about the content of a copy. */
export interface CopyFacts {
  readonly bytes: number;
  readonly schemaVersion: number;
  readonly tasks: number;
  readonly deliveries: number;
  /** Webhooks that a daemon would send by itself: an attempt of theirs is scheduled or was under way. */
  readonly openDeliveries: number;
}

/** The content of `FILE.json`, about the copy beside it. */
export interface CopyDocument extends CopyFacts {
  readonly createdAt: number;
  /** The version of the program that made it. */
  readonly program: string;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** Where the document of a copy lies. */
export function documentPath(file: string): string {
  return `${file}.json`;
}

/** Counts what is in a copy. */
export function countFacts(copy: Connection): Omit<CopyFacts, "bytes" | "schemaVersion"> {
  const count = (sql: string): number => copy.prepare<[], number>(sql).pluck().get() ?? 0;
  return {
    tasks: count("SELECT count(*) FROM tasks"),
    deliveries: count("SELECT count(*) FROM deliveries"),
    openDeliveries: count("SELECT count(*) FROM deliveries WHERE state = 'open'"),
  };
}

/** The SHA-256 of a file; looks at its watch after each MiB. The file must not be open in this process otherwise. */
export function sha256Of(file: string, { check, tell }: CopyWatch = UNWATCHED): string {
  const hash = createHash("sha256");
  const chunk = Buffer.alloc(MIB_BYTES);
  const descriptor = openSync(file, "r");
  try {
    const of = Math.ceil(fstatSync(descriptor).size / MIB_BYTES);
    for (let done = 1; ; done++) {
      const length = readSync(descriptor, chunk);
      if (length === 0) return hash.digest("hex");
      hash.update(chunk.subarray(0, length));
      check();
      tell({ part: "MiB read", done, of });
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The text of `FILE.json`. */
export function documentText(document: CopyDocument): string {
  const { createdAt, program, schemaVersion, bytes, tasks, deliveries, openDeliveries, sha256 } =
    document;
  const shown = {
    created_at: timeText(createdAt),
    postbackd: program,
    schema_version: schemaVersion,
    bytes,
    tasks,
    deliveries,
    open_deliveries: openDeliveries,
    sha256,
  };
  return `${JSON.stringify(shown, null, 2)}\n`;
}

/** Reads the document of a copy; null where there is none, `unreadable` where the file is no such document. */
export function readDocument(file: string): CopyDocument | "unreadable" | null {
  let text;
  try {
    // Without O_NONBLOCK the open of a FIFO waits for a writer.
    const flag = constants.O_RDONLY | constants.O_NONBLOCK;
    text = readFileSync(documentPath(file), { encoding: "utf8", flag });
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
  try {
    return parseDocument(JSON.parse(text)) ?? "unreadable";
  } catch {
    return "unreadable";
  }
}

function parseDocument(value: unknown): CopyDocument | null {
  if (typeof value !== "object" || value === null) return null;
  const given = new Map<string, unknown>(Object.entries(value));
  const number = (name: string): number => Number(given.get(name) ?? Number.NaN);
  const document = {
    createdAt: Date.parse(String(given.get("created_at"))),
    program: String(given.get("postbackd")),
    schemaVersion: number("schema_version"),
    bytes: number("bytes"),
    tasks: number("tasks"),
    deliveries: number("deliveries"),
    openDeliveries: number("open_deliveries"),
    sha256: String(given.get("sha256")),
  };
  const isSound = Object.values(document).every((each) => !Number.isNaN(each));
  return isSound && /^[0-9a-f]{64}$/.test(document.sha256) ? document : null;
}
