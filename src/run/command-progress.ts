import type { Readable } from "node:stream";

import { parseJsonBytes } from "../domain/json/json.ts";
import { type TaskProgress, parseProgress } from "../domain/task/run.ts";

// A note of 255 characters is at most 3 KiB as JSON, every one of them escaped as a surrogate pair.
const LINE_BYTES_MAX = 4096;

// Of all lines that came at once only the last report counts. Looking a few lines back finds a report that other text
// follows; a flood of such text costs no more than this.
const LOOKS_BACK_MAX = 4;

const LINE_FEED = 0x0a;
const NOTHING = Buffer.alloc(0);

/**
 * Reads a stream to its end and reports each line that says how far a run has come (`{"progress": 0.5, "note":
 * "halfway"}`), with or without a line end after the last one. Where lines come faster than they are read, only the
 * latest is reported. It ignores all other text, and a stream that cannot be read. It keeps at most one line.
 */
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
