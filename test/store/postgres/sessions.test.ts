import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test, type TestContext } from "node:test";

import { findFreePort } from "../../../scripts/kit/free-port.ts";
import { systemClock } from "../../../src/domain/clock/clock.ts";
import { BatchRunner } from "../../../src/store/postgres/machine/batch.ts";
import { hasCommitted } from "../../../src/store/postgres/machine/commits.ts";
import type { Connection } from "../../../src/store/postgres/machine/connection.ts";
import { Dialer, type Session } from "../../../src/store/postgres/machine/dialer.ts";
import { join, leave } from "../../../src/store/postgres/machine/heartbeat.ts";
import { makeSchema } from "../../../src/store/postgres/machine/migrate.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { StoreError } from "../../../src/store/store-error.ts";
import { askDatabase } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { pluck } from "../../helpers/store.ts";

const WRITER: Session = { deadlineMs: 5000, statementMs: 0, lockMs: 4000, mayLose: false };

function newDialer(t: TestContext, url: string): Dialer {
  const server = parseServerAddress(url);
  const parts = { server, applicationName: "postbackd here", clock: systemClock, log: undefined };
  const dialer = new Dialer(parts);
  t.after(() => dialer.close());
  return dialer;
}

async function settingsOf(
  connection: Connection,
  names: readonly string[] = [
    ...["application_name", "synchronous_commit", "statement_timeout", "lock_timeout"],
    "idle_in_transaction_session_timeout",
  ],
): Promise<Readonly<Record<string, string>>> {
  const rows = await connection.all<{ name: string; value: string }>(
    "SELECT name, current_setting(name) AS value FROM unnest($1::text[]) AS name",
    [names],
  );
  return Object.fromEntries(pluck(rows, "name", "value"));
}

describe("a connection of a node", { skip: reasonToSkipPostgres() }, () => {
  test("a connection has the name and the time-outs of its node, and waits for the disk unless it may lose", async (t) => {
    const dialer = newDialer(t, await newDatabaseUrl(t));
    const idle = { idle_in_transaction_session_timeout: "10s" };
    const writer = await settingsOf(await dialer.dial(WRITER));
    const session = { deadlineMs: 5000, statementMs: 5000, lockMs: 0, mayLose: true };
    const reader = await settingsOf(await dialer.dial(session));
    const name = { application_name: "postbackd here", ...idle };
    const kept = { synchronous_commit: "on", statement_timeout: "0", lock_timeout: "4s" };
    assert.deepEqual(writer, { ...name, ...kept });
    const lossy = { synchronous_commit: "off", statement_timeout: "5s", lock_timeout: "0" };
    assert.deepEqual(reader, { ...name, ...lossy });
  });

  test("a connection has its own formats of texts and times, not those of its role", async (t) => {
    const adminUrl = await newDatabaseUrl(t);
    const user = `u_${randomUUID()}`;
    const defaults = {
      client_encoding: "LATIN1",
      standard_conforming_strings: "off",
      DateStyle: "German",
      array_nulls: "off",
      transform_null_equals: "on",
      idle_session_timeout: "1s",
    };
    await askDatabase(adminUrl, `CREATE ROLE "${user}" SUPERUSER LOGIN PASSWORD 'x'`);
    t.after(() => askDatabase(adminUrl, `DROP ROLE "${user}"`));
    for (const [name, value] of Object.entries(defaults)) {
      await askDatabase(adminUrl, `ALTER ROLE "${user}" SET ${name} = '${value}'`);
    }
    const url = Object.assign(new URL(adminUrl), { username: user, password: "x" }).href;

    const connection = await newDialer(t, url).dial(WRITER);

    assert.deepEqual(await settingsOf(connection, Object.keys(defaults)), {
      client_encoding: "UTF8",
      standard_conforming_strings: "on",
      DateStyle: "ISO, DMY",
      array_nulls: "on",
      transform_null_equals: "off",
      idle_session_timeout: "0",
    });
  });

  test("a close ends the wait for a connection", async (t) => {
    const url = new URL(await newDatabaseUrl(t));
    url.port = String(await findFreePort());
    const dialer = newDialer(t, url.href);
    const waiting = dialer.reach(WRITER);
    dialer.close();
    await assert.rejects(
      waiting,
      (error) => error instanceof StoreError && error.kind === "closed",
    );
  });
});

describe("a transaction of unknown outcome", { skip: reasonToSkipPostgres() }, () => {
  test("a transaction has committed if its id has and it locked its stripe", async (t) => {
    const url = await newDatabaseUrl(t);
    await makeSchema(parseServerAddress(url));
    const connection = await newDialer(t, url).dial(WRITER);
    const who = { name: "n", url: null, version: "0", kind: "node", liveMs: 10_000 } as const;
    const { nodeSeq, stripe } = await join(connection, who);
    const at = { stripe, nodeSeq };
    const changes = { changed: new Set<number>(), send() {}, committed() {}, reset() {} };
    const writes = { nothing: async () => [undefined] };
    const newWork = () => ({ writes, lock() {}, placeOf: () => 0, changes });
    const parts = { ...at, nextSeq: () => 1, connection, newWork, committed() {} };
    const runner = new BatchRunner(parts);
    const lastXid = async (): Promise<string> => {
      await runner.run([{ name: "nothing", args: null }], 1000);
      const row = await connection.get<{ xid: string }>(
        "SELECT xmax::text AS xid FROM stripes WHERE stripe = $1",
        [stripe],
      );
      assert(row !== undefined);
      return row.xid;
    };
    const before = await lastXid();
    const own = await lastXid();

    assert.equal(await hasCommitted(connection, at, { xid: own }), true);
    assert.equal(await hasCommitted(connection, at, { xid: before }), false);
    const future = String(BigInt(own) + 1_000_000n);
    assert.equal(await hasCommitted(connection, at, { xid: future }), false);
    // The row of a taken stripe has no evidence.
    await leave(connection, nodeSeq);
    assert.equal(await hasCommitted(connection, at, { xid: own }), true);
  });
});
