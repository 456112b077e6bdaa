import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { json } from "node:stream/consumers";

// The program that the demo's tasks run, one process for each: the task comes as one line of JSON on stdin,
// the result goes to stdout as JSON, and what is written to stderr is shown as the error of a task that
// failed. Any program in any language can do that; this one is plain JavaScript because it starts fastest.

const NEWLINE = 0x0a;

const { input } = await json(process.stdin);
const hash = createHash("sha256");
let lines = 0;
let bytes = 0;
for await (const chunk of createReadStream(input.file)) {
  hash.update(chunk);
  bytes += chunk.length;
  for (const byte of chunk) if (byte === NEWLINE) lines++;
}
console.log(JSON.stringify({ file: input.file, sha256: hash.digest("hex"), lines, bytes }));
