import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { NpmPackages } from "../../scripts/kit/npm-packages.ts";
import { findTestPostgres, HOW_TO_GET_POSTGRES } from "../../scripts/kit/postgres-binaries.ts";
import { sourceProgram } from "../../scripts/kit/program.ts";
import { findRedis, HOW_TO_GET_REDIS } from "../../scripts/kit/redis-server.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { measureRows } from "../../scripts/peers/measure.ts";
import { peersTable, waysText, type MeasuredRow } from "../../scripts/peers/report.ts";
import { measurableRows, ROWS, tunedRows } from "../../scripts/peers/rows.ts";

const PEERS = fileURLToPath(new URL("../../scripts/peers", import.meta.url));
const REQUIRED = process.env["POSTBACKD_TEST_PEERS"] === "required";

/** Why the peers cannot be measured here; null where they can, or where the environment promises what they need. */
function reasonToSkip(): string | null {
  const isThere = REQUIRED || new NpmPackages(PEERS).isInstalled;
  const reasons = [
    isThere ? null : "the peers are not installed: 'npm run bench -- peers' has npm install them",
    findRedis() === null ? HOW_TO_GET_REDIS : null,
    findTestPostgres() === null ? HOW_TO_GET_POSTGRES : null,
  ];
  const reason = reasons.find((each) => each !== null) ?? null;
  if (REQUIRED) assert.equal(reason, null);
  return reason;
}

function rowsOf(names: readonly string[]) {
  return ROWS.filter(({ name }) => names.includes(name));
}

/** What it measures is not asserted: only that it measures, and that each webhook arrives, signed and once. */
async function measure(t: TestContext, names: readonly string[]): Promise<readonly MeasuredRow[]> {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const rows = await measureRows(rowsOf(names), {
    place: { program: sourceProgram(), folder: scratch.path },
    effort: { tasks: 40, seconds: 0.1 },
    rounds: 1,
    uncounted: 1,
    note: () => undefined,
  });
  assert.deepEqual(
    rows.map(({ name }) => name),
    names,
  );
  for (const { name, slices } of rows) {
    assert.equal(slices.length, 1, name);
    assert.ok((slices[0]?.tasksPerSecond ?? 0) > 0, `${name} has no rate`);
  }
  return rows;
}

test("the bench measures postbackd beside bounds that need nothing else", async (t) => {
  const rows = await measure(t, ["file", "handler", "inserts-10"]);

  const [, , file, handler] = peersTable(rows).split("\n");
  assert.match(file ?? "", /^\| postbackd, SQLite +\| fsync \(FULL\) +\|.*\| +1\.00 \|/);
  assert.match(handler ?? "", /bare h3 handler +\| nothing kept /);
  assert.match(waysText(rows), /^- postbackd, SQLite .*: 32 at a time/);
});

test("the bench measures each peer and our own rows on a server", async (t) => {
  const reason = reasonToSkip();
  if (reason !== null) {
    t.skip(reason);
    return;
  }
  const peers = ["bullmq-always", "bullmq-everysec", "pg-boss", "graphile-worker", "plainjob"];

  const rows = await measure(t, ["server", "server-128", ...peers, "sender"]);

  for (const { name, slices } of rows) {
    const [{ cpu } = assert.fail(name)] = slices;
    assert.equal(Number.isNaN(cpu.database), ["plainjob", "sender"].includes(name), name);
  }
});

test("a row whose server is not on the machine is left out, with the command that installs it", (t) => {
  const path = process.env["PATH"];
  t.after(() => (process.env["PATH"] = path));
  process.env["PATH"] = dirname(join(PEERS, "package.json"));
  const news: string[] = [];

  const rows = measurableRows(rowsOf(["file", "bullmq-always"]), (said) => news.push(said));

  assert.deepEqual(
    rows.map(({ name }) => name),
    ["file"],
  );
  assert.deepEqual(news, [`bullmq-always is left out: ${HOW_TO_GET_REDIS}`]);
});

test("each peer is run in a way that was tried", () => {
  const peers = ROWS.filter((row) => tunedRows(row).length > 0);

  assert.equal(peers.length, 5);
  for (const row of peers) {
    const tried = tunedRows(row).map(({ way }) => way);
    assert.ok(tried.includes(row.way), row.name);
  }
});
