import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { LogFacts } from "../../src/domain/log.ts";
import type { DatabaseHealth } from "../../src/domain/stats/health.ts";
import { createLogger } from "../../src/log.ts";
import { warnOfRisks } from "../../src/ops/check.ts";
import {
  ServerWatch,
  StorageWatch,
  fileSystemOf,
  fileSystemOfType,
} from "../../src/ops/storage.ts";
import { StoreError } from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { loaded } from "../helpers/config.ts";
import { type FakeClock, createFakeClock } from "../helpers/fake-clock.ts";

const SOUND: DatabaseHealth = {
  ...{ version: "15.14", bytes: 1, connections: { used: 1, max: 100 }, oldestSnapshot: null },
  ...{ standbys: [], commitsWait: false, deadRows: { queue: 0, outbox: 0 } },
};
const OLD = { holder: "session", name: "report", pid: 7, ageMs: 61_000, transactions: 9 } as const;

function newWatch() {
  const clock = createFakeClock();
  const cluster = new FakeCluster(clock);
  const logged: { readonly facts: LogFacts; readonly text: string }[] = [];
  const write = (facts: LogFacts, text: string) => void logged.push({ facts, text });
  const state = { looks: 0, health: async (): Promise<DatabaseHealth | null> => SOUND };
  const findDatabaseHealth = () => {
    state.looks++;
    return state.health();
  };
  const watch = new ServerWatch({
    store: { cluster, findDatabaseHealth },
    clock,
    log: { debug: write, info: write, warn: write, error: write },
  });
  return { clock, cluster, logged, state, watch };
}

/** Lets minutes pass with their checks. */
async function pass(clock: FakeClock, minutes: number): Promise<void> {
  await setImmediate();
  for (let i = 0; i < minutes; i++) {
    clock.advance(MINUTE_MS);
    await setImmediate();
  }
}

const old = async () => ({ ...SOUND, oldestSnapshot: OLD });

test("a fault of PostgreSQL is logged once, and again each hour", async () => {
  const { clock, logged, state, watch } = newWatch();
  state.health = old;
  watch.start();
  await pass(clock, 59);
  assert.equal(state.looks, 1 + 59 * 12);
  assert.equal(logged.length, 1);
  assert.deepEqual(logged[0]?.facts, OLD);
  assert.deepEqual(watch.warnings(), [logged[0]?.text]);

  await pass(clock, 1);
  assert.equal(logged.length, 2);

  state.health = async () => SOUND;
  await pass(clock, 120);
  assert.equal(logged.length, 2);
  assert.deepEqual(watch.warnings(), []);
});

test("every node shows a fault of PostgreSQL, and the sweep node logs it", async () => {
  const { clock, cluster, logged, state, watch } = newWatch();
  cluster.roles = [];
  state.health = old;
  watch.start();
  await pass(clock, 1);
  assert.equal(watch.warnings().length, 1);
  assert.deepEqual(logged, []);

  cluster.roles = ["sweep"];
  await pass(clock, 1);
  assert.equal(logged.length, 1);
});

test("an unreachable PostgreSQL is checked again, and shows no fault", async () => {
  const { clock, logged, state, watch } = newWatch();
  state.health = old;
  watch.start();
  await pass(clock, 0);
  state.health = () => Promise.reject(new StoreError("unreachable", "no server"));
  await pass(clock, 1);
  assert.deepEqual(watch.warnings(), []);
  assert.equal(logged.length, 1);

  state.health = () => Promise.reject(new Error("a bug"));
  await pass(clock, 1);
  assert.match(logged[1]?.text ?? "", /could not be read/);
  state.health = old;
  await pass(clock, 1);
  assert.equal(watch.warnings().length, 1);
});

test("a closed watch does not check", async () => {
  const { clock, state, watch } = newWatch();
  watch.start();
  await pass(clock, 0);
  watch.close();
  await pass(clock, 5);
  assert.equal(state.looks, 1);
  const early = newWatch();
  early.watch.start();
  early.watch.close();
  await pass(early.clock, 5);
  assert.equal(early.state.looks, 1);
});

test("callers share the size check under way", async () => {
  const clock = createFakeClock();
  const looks: PromiseWithResolvers<number>[] = [];
  const watch = new StorageWatch({
    clock,
    log: createLogger({ level: "info", format: "json", write: () => {} }),
    store: {
      usedBytes() {
        const look = Promise.withResolvers<number>();
        looks.push(look);
        return look.promise;
      },
      shortage: () => null,
      tryWrite: async () => {},
      hasSeveralAccounts: async () => false,
    },
    database: { freeBytes: () => 0 },
    ...{ diskFreeBytes: 0, databaseBytes: 100 },
  });

  const asked = [watch.shortage(), watch.shortageNow()];
  clock.advance(5000);
  asked.push(watch.shortage(), watch.shortageNow());
  await setImmediate();
  assert.equal(looks.length, 1);
  looks[0]?.resolve(100);
  for (const shortage of await Promise.all(asked)) assert.match(shortage ?? "", /database_size/);

  const next = watch.shortageNow();
  looks[1]?.resolve(99);
  assert.equal(await next, null);
  assert.equal(looks.length, 2);
});

test("a network file system is found by its number, also a negative one", () => {
  for (const [type, name, kind] of [
    [0x6969, "nfs", "network"],
    [0xff534d42, "cifs", "network"],
    [0xff534d42 | 0, "cifs", "network"],
    [0x01021994, "tmpfs", "memory"],
    [0x794c7630, "overlay", "overlay"],
    [0xef53, "0xef53", "local"],
  ] as const) {
    assert.deepEqual(fileSystemOfType(type), { name, kind });
  }
});

test("a missing file has the file system of its folder", () => {
  assert.notEqual(fileSystemOf("/dev/shm/no-such-file").kind, "network");
  assert.throws(() => fileSystemOf("/no-such-folder/x.db"), /ENOENT/);
});

/** The warnings of a start with this database. */
function warningsOf(db: string): readonly string[] {
  const warnings: string[] = [];
  const log = {
    ...{ debug() {}, info() {}, error() {} },
    warn: (facts: object, message: string) =>
      void warnings.push(`${JSON.stringify(facts)} ${message}`),
  };
  warnOfRisks(loaded({ flags: { db } }), { log, env: {} });
  return warnings;
}

test("a connection without TLS, or with an unchecked certificate, is a warning", () => {
  assert.deepEqual(warningsOf("postgres://app:s3cr3t@db.lan/x?sslmode=disable"), [
    '{"host":"db.lan"} the database is reached without TLS: tasks travel readable (sslmode=disable)',
  ]);
  const [unchecked = "", ...others] = warningsOf("postgres://app@a,localhost/x?sslmode=require");
  assert.match(unchecked, /^\{"host":"a"\} the database's certificate is not checked/);
  assert.deepEqual(others, []);
});

test("a local database, or a checked certificate, causes no warning", () => {
  const urls = [
    "x.db",
    "postgres://app@db.lan/x",
    "postgres://app@db.lan/x?sslmode=require&sslrootcert=/ca.pem",
    "postgres://app@localhost/x",
    "postgres://app@/x?host=/run/postgresql",
  ];

  for (const url of urls) assert.deepEqual(warningsOf(url), [], url);
});
