import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { DiskRecord, hexOf } from "../../scripts/power-cut/disk-record.ts";

const DATABASE = "/data/postbackd.db";
const WAL = `${DATABASE}-wal`;

function opened(path: string, flags = "O_RDWR|O_CREAT"): string {
  return `openat(AT_FDCWD<${hexOf("/")}>, "${hexOf(path)}", ${flags}, 0644) = 7<${hexOf(path)}>`;
}

function written(path: string, text: string, offset = 0): string {
  const bytes = `"${hexOf(text)}", ${text.length}, ${offset}`;
  return `pwrite64(7<${hexOf(path)}>, ${bytes}) = ${text.length}`;
}

function synced(path: string): string {
  return `fsync(7<${hexOf(path)}>) = 0`;
}

function said(head: string): string {
  return `write(9<${hexOf("socket:[1]")}>, "${hexOf(`${head}\r\n\r\n`)}", 99) = 99`;
}

/** Reads one life from a trace of these lines, at whose end the files were those. */
async function recordOf(
  t: TestContext,
  lines: readonly string[],
  files: Readonly<Record<string, string>>,
): Promise<DiskRecord> {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const traceFile = join(scratch.path, "trace");
  const snapshot = join(scratch.path, "files");
  mkdirSync(snapshot);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(snapshot, name), text);
  const text = lines.map((line, i) => (/^\d/.test(line) ? line : `100 ${i}.500000 ${line}`));
  writeFileSync(traceFile, `${text.join("\n")}\n`);
  return await DiskRecord.read(DATABASE, [{ traceFile, snapshot }]);
}

test("a trace tells what was made, written, synced and removed, in order and with the data", async (t) => {
  const lines = [
    opened(DATABASE),
    opened(WAL),
    written(WAL, "frame", 32),
    synced(WAL),
    synced("/data"),
    written(DATABASE, "page"),
    `ftruncate(7<${hexOf(DATABASE)}>, 2) = 0`,
    `unlink("${hexOf(WAL)}") = 0`,
  ];

  const { changes, end } = await recordOf(t, lines, { "postbackd.db": "pa" });

  assert.deepEqual(
    changes.map(({ kind, begun }) => `${begun} ${kind}`),
    [
      ...["0 made", "1 made", "2 written", "3 synced", "4 folder-synced"],
      ...["5 written", "6 resized", "7 removed"],
    ],
  );
  const [, , frame] = changes;
  assert(frame?.kind === "written");
  assert.equal(frame.data.toString(), "frame");
  assert.equal(frame.offset, 32);
  assert.equal(frame.at, 2500);
  assert.equal(end, lines.length);
});

test("what fails, other folders, the WAL's index and files without a name are no changes", async (t) => {
  const lines = [
    opened(DATABASE),
    `openat(AT_FDCWD, "${hexOf(WAL)}", O_RDWR) = -1 ENOENT (No such file or directory)`,
    written(`${DATABASE}-shm`, "index"),
    written("/elsewhere/postbackd.db", "page"),
    `pwrite64(7<${hexOf(WAL)}>(deleted), "${hexOf("frame")}", 5, 0) = 5`,
    "--- SIGCHLD {si_signo=SIGCHLD} ---",
    "+++ exited with 0 +++",
  ];

  const { changes } = await recordOf(t, lines, { "postbackd.db": "" });

  assert.deepEqual(
    changes.map(({ kind }) => kind),
    ["made"],
  );
});

test("a call that another thread interrupts in the trace is one call, from its beginning to its end", async (t) => {
  const [call = "", rest = ""] = written(DATABASE, "page").split(/(?=\) = )/);
  const lines = [
    opened(DATABASE),
    `${call} <unfinished ...>`,
    `101 2.000000 ${said("x-request-id: one")}`,
    `<... pwrite64 resumed>${rest}`,
  ];

  const { changes, said: places } = await recordOf(t, lines, { "postbackd.db": "page" });

  assert.deepEqual(
    changes.map(({ kind, begun, over }) => ({ kind, begun, over })),
    [
      { kind: "made", begun: 0, over: 0 },
      { kind: "written", begun: 1, over: 3 },
    ],
  );
  assert.deepEqual(places, new Map([["one", 2]]));
});

test("answers and webhooks are found by the names that clients and receivers have for them", async (t) => {
  const lines = [
    opened(DATABASE),
    said("HTTP/1.1 200 OK\r\nx-request-id: 0192"),
    said("POST / HTTP/1.1\r\nx-attempt: 2\r\nwebhook-id: 0193-postback"),
  ];

  const { said: places } = await recordOf(t, lines, { "postbackd.db": "" });

  const wanted = [
    ["0192", 1],
    ["0193-postback 2", 2],
  ] as const;
  assert.deepEqual([...places], wanted);
});

test("of a write that a kill cut off there is what the file has of it; such a sync has promised nothing", async (t) => {
  const cutOff = written(DATABASE, "later", 4).replace(/\) = 5$/, " <unfinished ...>");
  const lines = [opened(DATABASE), written(DATABASE, "page"), cutOff];
  const sync = [opened(DATABASE), `fsync(7<${hexOf(DATABASE)}> <unfinished ...>`];

  const whole = await recordOf(t, lines, { "postbackd.db": "pagelater" });
  const part = await recordOf(t, lines, { "postbackd.db": "pagela" });
  const nothing = await recordOf(t, lines, { "postbackd.db": "page" });
  const unsynced = await recordOf(t, sync, { "postbackd.db": "" });

  const texts = [whole, part, nothing].map(({ changes }) =>
    changes.flatMap((change) => (change.kind === "written" ? [change.data.toString()] : [])),
  );
  assert.deepEqual(texts, [["page", "later"], ["page", "la"], ["page"]]);
  assert.equal(unsynced.changes.length, 1);
});

test("a record that does not amount to the files is refused", async (t) => {
  const lines = [opened(DATABASE), written(DATABASE, "page")];

  const reading = recordOf(t, lines, { "postbackd.db": "pagE" });

  await assert.rejects(reading, /postbackd\.db is not what strace saw being written/);
});

test("a database that is older than its record, or is written in a way that is not read, is refused", async (t) => {
  const files = { "postbackd.db": "" };
  const otherWrite = `write(7<${hexOf(DATABASE)}>, "${hexOf("page")}", 4) = 4`;
  const readOlder = () => recordOf(t, [opened(DATABASE, "O_RDWR")], files);
  const readOther = () => recordOf(t, [opened(DATABASE), otherWrite], files);

  await assert.rejects(readOlder, /begin with an empty folder/);
  await assert.rejects(readOther, /write of postbackd\.db cannot be read/);
});
