import type { Readable } from "node:stream";

import { GrowingBytes } from "../domain/json/chunks.ts";
import { compactJson, parseJsonBytes, toJsonText } from "../domain/json/json.ts";
import { type TaskProgress, parseProgress } from "../domain/task/run.ts";
import { type RunResult, toRunResult } from "./runner.ts";

/** Beyond `bytesMax` bytes it closes the stream and calls `onOverflow` once. After `onError` the bytes are not all. */
export function readBounded(
  stream: Readable,
  options: {
    readonly bytesMax: number;
    readonly onOverflow: () => void;
    readonly onError: () => void;
  },
): Pick<GrowingBytes, "bytes"> {
  const output = new GrowingBytes(options.bytesMax);
  stream.on("data", (chunk: Buffer) => {
    if (output.add(chunk)) return;
    // Called first, so that the signal ends the writer, and not by chance the closed stream.
    options.onOverflow();
    // Closed rather than left unread: a writer that ignores SIGTERM gets EPIPE, not a full pipe.
    stream.destroy();
  });
  stream.on("error", options.onError);
  return output;
}

/** Keeps the last `bytesMax` bytes as well-formed text: a cut character is left out, other bytes become U+FFFD. */
export function readTail(stream: Readable, bytesMax: number): { text(): string } {
  let chunks: Buffer[] = [];
  let length = 0;
  let isCut = false;
  stream.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    length += chunk.length;
    if (length <= bytesMax * TAIL_SLACK) return;
    // Copied, so that its last bytes do not keep a large read buffer alive.
    const tail = Buffer.from(Buffer.concat(chunks).subarray(-bytesMax));
    chunks = [tail];
    length = tail.length;
    isCut = true;
  });
  // A tail is a hint for people: a part of it is good enough.
  stream.on("error", () => {});
  return {
    text() {
      const all = Buffer.concat(chunks);
      const tail = all.subarray(-bytesMax);
      return decodeTail(tail, { isCut: isCut || tail.length < all.length });
    },
  };
}

// The tail is trimmed when it has grown to this many times its limit, not at every small write.
const TAIL_SLACK = 4;

const lenientUtf8 = new TextDecoder("utf-8", { ignoreBOM: true });

function decodeTail(tail: Buffer, options: { readonly isCut: boolean }): string {
  let start = 0;
  // At most three continuation bytes (0x80–0xBF) can belong to the character before the cut.
  while (options.isCut && start < 3 && isContinuation(tail[start])) start++;
  return lenientUtf8.decode(tail.subarray(start));
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a command's stdout (runners.md). JSON is the result as it stands, with every digit. Any other text becomes a
 * JSON string without its last line end, which belongs to the line and not to the value. Empty output is `null`.
 * Refuses bytes that are not UTF-8, JSON deeper than allowed here, and a result over `bytesMax` bytes as JSON text
 * (escapes can make a text longer than it was written).
 */
export function parseCommandOutput(stdout: Uint8Array, bytesMax: number): RunResult {
  if (stdout.length === 0) return { kind: "result", resultText: "null" };
  const json = compactJson(stdout);
  if (json.kind === "text") return toRunResult(json.text, bytesMax);

  let text: string;
  try {
    text = utf8.decode(stdout);
  } catch {
    return { kind: "fault", reason: "is not valid UTF-8" };
  }
  // JSON after all, so what was wrong with it is not its syntax.
  if (isJson(text)) return { kind: "fault", reason: `is JSON ${json.reason}` };
  return toRunResult(toJsonText(text.replace(/\r?\n$/, "")), bytesMax);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// A note of 255 characters is at most 3 KiB as JSON, every one of them escaped as a surrogate pair.
const LINE_BYTES_MAX = 4096;

// Of all lines that came together only the last report counts. Looking a few lines back finds a report that other text
// follows; a flood of such text costs no more than this.
const LOOKS_BACK_MAX = 4;

const LINE_FEED = 0x0a;
const NOTHING = Buffer.alloc(0);

/** Reports each line such as `{"progress": 0.5, "note": "halfway"}`, of several only the latest. Keeps one line. */
export function readProgress(stream: Readable, report: (progress: TaskProgress) => void): void {
  let line = NOTHING;
  let isTooLong = false;
  stream.on("data", (chunk: Buffer) => {
    const end = chunk.lastIndexOf(LINE_FEED);
    if (end >= 0) {
      const start = isTooLong ? chunk.indexOf(LINE_FEED) + 1 : 0;
      const lines = Buffer.concat([line, chunk.subarray(start, end)]);
      reportLatest(lines, report);
      line = NOTHING;
      isTooLong = false;
    }
    const rest = chunk.subarray(end + 1);
    isTooLong ||= line.length + rest.length > LINE_BYTES_MAX;
    // Copied, so that its last bytes do not keep a large read buffer alive.
    line = isTooLong ? NOTHING : Buffer.concat([line, rest]);
  });
  stream.on("end", () => reportLatest(line, report));
  stream.on("error", () => {});
}

function reportLatest(lines: Buffer, report: (progress: TaskProgress) => void): void {
  let end = lines.length;
  for (let looks = 0; looks < LOOKS_BACK_MAX && end > 0; looks++) {
    const start = lines.lastIndexOf(LINE_FEED, end - 1) + 1;
    const progress = toProgress(lines.subarray(start, end));
    if (progress !== null) {
      report(progress);
      return;
    }
    end = start - 1;
  }
}

function toProgress(line: Buffer): TaskProgress | null {
  if (line.length === 0 || line.length > LINE_BYTES_MAX) return null;
  const parsed = parseJsonBytes(line);
  return parsed.kind === "json" ? parseProgress(parsed.value) : null;
}
