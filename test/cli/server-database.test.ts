import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { nodesAnswer } from "../../src/cli/admin-worker.ts";
import { SCHEMA } from "../../src/store/postgres/machine/schema.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, temporaryFolder, type Finished } from "../helpers/program.ts";
import { runHere } from "./in-process.ts";

const SECRET = "s3cr3t";
// Nothing listens on port 1.
const SERVER = `postgres://app:${SECRET}@127.0.0.1:1/jobs`;
const SHOWN = "postgres://app@127.0.0.1:1/jobs";

function assertNoSecret({ stdout, stderr }: Finished): void {
  assert.doesNotMatch(stdout + stderr, new RegExp(SECRET));
}

test("config print shows the URL of PostgreSQL without its password", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "db.txt"), `${SERVER}\n`);
  const options = { cwd, env: { POSTBACKD_DB_FILE: "db.txt" } };
  const text = await runHere(t, ["config", "print"], options);
  const json = await runHere(t, ["config", "print", "--json"], options);

  assert.deepEqual([text.code, json.code], [0, 0]);
  assertNoSecret(text);
  assertNoSecret(json);
  assert.match(
    text.stdout,
    /database +"postgres:\/\/app@127\.0\.0\.1:1\/jobs" +environment POSTBACKD_DB_FILE/,
  );
  const { settings } = JSON.parse(json.stdout) as {
    readonly settings: readonly { readonly key: string; readonly value: unknown }[];
  };
  assert.equal(settings.find(({ key }) => key === "database")?.value, SHOWN);
});

test("a command that cannot reach PostgreSQL names the host and not the password", async (t) => {
  const cwd = temporaryFolder(t);
  const commands = [
    ["admin", "account", "create", "ada"],
    ["admin", "node", "list"],
    ["database", "migrate"],
  ];

  for (const words of commands) {
    const ended = await runHere(t, [...words, "--db", SERVER], { cwd });
    assert.deepEqual([ended.code, ended.stdout], [1, ""], words.join(" "));
    assert.match(ended.stderr, /127\.0\.0\.1:1/);
    assertNoSecret(ended);
  }
});

test("database migrate makes the tables once", { skip: reasonToSkipPostgres() }, async (t) => {
  const url = await newDatabaseUrl(t);
  const options = { env: { POSTBACKD_DB: url } };
  const made = await runHere(t, ["database", "migrate"], options);
  const again = await runHere(t, ["database", "migrate", "--json"], options);

  const { password } = new URL(url);
  const shown = url.replace(`:${password}@`, "@");
  assert.ok(made.stdout.includes(shown));
  assert.deepEqual(JSON.parse(again.stdout), {
    database: shown,
    from: SCHEMA.version,
    to: SCHEMA.version,
  });
});

test("start reports a refused password without it", { skip: reasonToSkipPostgres() }, async (t) => {
  const url = new URL(await newDatabaseUrl(t));
  url.password = SECRET;
  const options = { env: { POSTBACKD_DB: url.href, TMPDIR: temporaryFolder(t) } };
  const ended = await runProgram(t, ["start", "--port", "0"], options);

  assert.equal(ended.code, 1);
  assert.match(ended.stderr, new RegExp(`${url.host} refuses postgres`));
  assertNoSecret(ended);
});

test("node list shows the nodes of a cluster, also one without facts", () => {
  const joinedAt = Date.parse("2030-01-31T09:00:00.000Z");
  const node = { name: "east", version: "1.0.0", joinedAt, lastSeenAt: joinedAt + 2000 };
  const running = [
    { type: "a", runs: 2 },
    { type: "b", runs: 1 },
  ];
  const counts = { all: 0, failed: 0 };
  const { lines, document } = nodesAnswer([
    {
      ...{ ...node, id: "2", endedAt: null, isLost: false, roles: ["sweep", "reap"] },
      facts: { url: "http://10.0.0.1:1", running, sending: 4, runs: counts, receivers: counts },
    },
    { ...node, id: "1", endedAt: joinedAt + 5000, isLost: true, roles: [], facts: null },
  ]);

  const rows = lines.map((line) => line.split(/ {2,}/));
  const titles = ["URL", "ENDED AT", "ROLES", "RUNNING", "SENDING"];
  assert.deepEqual(
    rows.map((row) => titles.map((title) => row[rows[0]?.indexOf(title) ?? -1])),
    [
      titles,
      ["http://10.0.0.1:1", "-", "sweep,reap", "3", "4"],
      ["-", "2030-01-31T09:00:05.000Z (lost)", "-", "-", "-"],
    ],
  );
  const [first] = Object(document)["nodes"];
  assert.deepEqual([Object(first)["roles"], "duties" in Object(first)], [["sweep", "reap"], false]);
  assert.deepEqual(Object.keys(document), ["nodes"]);
});
