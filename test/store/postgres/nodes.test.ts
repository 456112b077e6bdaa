import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { type TestContext, describe, test } from "node:test";

import { NODE_ROLES } from "../../../src/store/cluster.ts";
import { type NodeFacts, type Store, StoreError } from "../../../src/store/store.ts";
import { afterwards } from "../../helpers/afterwards.ts";
import {
  QUICK_BEAT_MS,
  askDatabase,
  eventually,
  openQuickNode,
  startProxy,
} from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres, startPostgres } from "../../helpers/postgres.ts";
import { newPost, newTask, seedAccount } from "../../helpers/store.ts";

const seeEachOther = (...stores: readonly Store[]): boolean => {
  const ids = stores.map(({ cluster }) => cluster.self).toSorted();
  return stores.every(({ cluster }) => cluster.membership().toSorted().join() === ids.join());
};

const pausedBy = ({ cluster }: Store): string[] => NODE_ROLES.filter((role) => cluster.holds(role));

/** A node in a process of its own, and what it says. */
async function startNode(t: TestContext, url: string) {
  const program = new URL("./node-process.ts", import.meta.url).pathname;
  const args = ["--import", "tsx", program, url, String(QUICK_BEAT_MS)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  afterwards(t, () => void child.kill("SIGKILL"));
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const said = async (): Promise<string> => {
    await eventually("a line of the process", () => lines.length > 0, 30_000);
    return lines.shift() ?? "";
  };
  return { child, said, id: await said() };
}

/** A database whose clock is as far ahead of the server's as the test says: by a function that is found first. */
async function newDatabaseWithClock(t: TestContext) {
  const { url } = await startPostgres(t);
  await askDatabase(
    url,
    `ALTER ROLE postgres SET search_path = public, pg_catalog;
    CREATE TABLE test_clock (ahead_ms int); INSERT INTO test_clock VALUES (0);
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      $$ SELECT pg_catalog.clock_timestamp() + (SELECT ahead_ms FROM test_clock) * interval '1 ms' $$`,
  );
  const setAhead = (ms: number) =>
    askDatabase(url, `UPDATE test_clock SET ahead_ms = ${ms}`).then(() => {});
  return { url, setAhead };
}

function newFacts(overrides: Partial<NodeFacts> = {}): NodeFacts {
  const none = { all: 0, failed: 0 };
  return { url: null, runs: none, receivers: none, running: [], sending: 0, ...overrides };
}

describe("nodes that share a database", { skip: reasonToSkipPostgres() }, () => {
  test("a failed node joins again, later after each time, and logs it", async (t) => {
    const url = await newDatabaseUrl(t);
    const lines: string[] = [];
    const note = (_: object, message: string): void => void lines.push(message);
    const log = { debug() {}, info: note, warn: note, error: note };
    const store = await openQuickNode(t, url, { log });
    const accountId = await seedAccount(store);
    const joinedAgainAfter = async (): Promise<number> => {
      const { self } = store.cluster;
      const from = performance.now();
      store.cluster.rejoin("a fault");
      assert.equal(store.cluster.isMember(), false);
      await eventually("member", () => store.cluster.isMember());
      assert.notEqual(store.cluster.self, self);
      return performance.now() - from;
    };

    await joinedAgainAfter();
    await joinedAgainAfter();
    const ms = await joinedAgainAfter();

    assert(ms >= 1000, `${ms} ms`);
    assert.deepEqual(await store.insertTasks(newPost(accountId, [newTask()])), {
      kind: "inserted",
    });
    assert.equal(lines.filter((line) => line === "this node joined again").length, 3);
  });

  test("nodes divide the roles and take the roles of a node that leaves", async (t) => {
    const url = await newDatabaseUrl(t);
    const first = await openQuickNode(t, url);
    assert.deepEqual(pausedBy(first), NODE_ROLES);
    const second = await openQuickNode(t, url);
    await eventually(
      "divided",
      () => pausedBy(first).length === 4 && pausedBy(second).length === 3,
    );
    assert.deepEqual([...pausedBy(first), ...pausedBy(second)].toSorted(), NODE_ROLES.toSorted());
    await first.close();
    await eventually("taken over", () => pausedBy(second).length === NODE_ROLES.length);
  });

  test("a node that resigns gives up its roles immediately, and its share after its last request", async (t) => {
    const url = await newDatabaseUrl(t);
    const first = await openQuickNode(t, url);
    const second = await openQuickNode(t, url);
    await eventually("divided", () => pausedBy(second).length === 3);

    let sending = 1;
    const tellFacts = () => newFacts({ sending });
    first.cluster.tellFacts(tellFacts);

    first.cluster.resign();

    await eventually("taken over", () => pausedBy(second).length === NODE_ROLES.length);
    assert.deepEqual(pausedBy(first), []);
    assert(seeEachOther(first, second));
    sending = 0;
    const { self } = second.cluster;
    const areOthers = ({ cluster }: Store): boolean => cluster.membership().join() === self;
    await eventually("its share is the other's", () => areOthers(first) && areOthers(second));
    assert(first.cluster.isMember());
    assert.deepEqual([pausedBy(first), pausedBy(second)], [[], [...NODE_ROLES]]);
    const told = (await second.listNodes()).find(({ id }) => id === first.cluster.self);
    assert.deepEqual(told?.facts, tellFacts());
  });

  test("a node that is cut off loses its stripes and joins again under a new id", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    const first = await openQuickNode(t, url);
    const second = await openQuickNode(t, proxy.through(url));
    await eventually("members", () => seeEachOther(first, second));
    // No change is under way any more.
    await eventually("divided", () => pausedBy(second).length === 3);
    const { self } = second.cluster;
    let changes = 0;
    second.cluster.onChange(() => changes++);

    proxy.shut();

    await eventually("fenced", () => !second.cluster.isMember());
    assert.deepEqual(pausedBy(second), []);
    await eventually("told", () => changes === 1);
    await eventually("dead", () => seeEachOther(first));
    assert(!second.cluster.isMember());
    const held = await askDatabase<{ node: string }>(
      url,
      "SELECT DISTINCT node_seq AS node FROM stripes",
    );
    assert(!held.some(({ node }) => node === self));
    const [row] = await askDatabase(url, `SELECT ended_at FROM nodes WHERE seq = ${self}`);
    assert.notEqual(row?.["ended_at"], null);
    proxy.reopen();
    await eventually("back", () => second.cluster.isMember() && seeEachOther(first, second));
    assert.notEqual(second.cluster.self, self);
    // A node that waits long for a processor may be fenced once more.
    const write = () => second.keepSecret({ name: "cursors", fresh: "kept" });
    await eventually("writes", () => write().then(Boolean, () => false));
  });

  test("a silent network ends the membership of a node before the other nodes end it", async (t) => {
    const url = await newDatabaseUrl(t);
    const proxy = await startProxy(t, url);
    const first = await openQuickNode(t, url);
    const second = await openQuickNode(t, proxy.through(url));
    await eventually("members", () => seeEachOther(first, second));

    proxy.hold();

    await eventually("dead", () => {
      const isDead = seeEachOther(first);
      assert(!isDead || !second.cluster.isMember());
      return isDead;
    });
    proxy.release();
    await eventually("back", () => second.cluster.isMember() && seeEachOther(first, second));
  });

  test("a stopped process is not a member when it continues, and joins again", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openQuickNode(t, url);
    const { child, said, id } = await startNode(t, url);
    await eventually("members", () => store.cluster.membership().includes(id));

    child.kill("SIGSTOP");
    const stoppedAt = performance.now();
    await eventually("dead", () => seeEachOther(store));
    // The process ignores a shorter stop, and its last heartbeat may be old.
    await eventually("stopped for a while", () => performance.now() - stoppedAt > 2500);
    child.kill("SIGCONT");

    assert.equal(await said(), "no member");
    await eventually("back", () => store.cluster.membership().length === 2);
    assert(!store.cluster.membership().includes(id));
  });

  test("a tool writes without being a node", async (t) => {
    const url = await newDatabaseUrl(t);
    const node = await openQuickNode(t, url);
    let changes = 0;
    node.cluster.onChange(() => changes++);

    const tool = await openQuickNode(t, url, { kind: "tool" });

    await seedAccount(tool);
    assert.deepEqual(tool.cluster.membership(), [node.cluster.self]);
    assert.deepEqual(pausedBy(tool), []);
    assert.equal((await node.listNodes()).length, 1);
    await tool.close();
    const [stripes] = await askDatabase(
      url,
      "SELECT count(*)::int AS held FROM stripes WHERE node_seq IS NOT NULL",
    );
    assert.equal(stripes?.["held"], 2);
    assert.equal(changes, 0);
  });

  test("listed nodes have their own facts, also ended nodes", async (t) => {
    const url = await newDatabaseUrl(t);
    const first = await openQuickNode(t, url, { node: { name: "one", url: null, version: "1" } });
    const second = await openQuickNode(t, url, { node: { name: "two", url: null, version: "2" } });
    const facts = newFacts({ url: "http://127.0.0.1:2", sending: 3 });
    second.cluster.tellFacts(() => facts);

    await eventually("facts", async () => (await first.listNodes())[0]?.facts !== null);

    const [two, one] = await first.listNodes();
    assert.deepEqual(two?.facts, facts);
    assert.deepEqual([two?.name, one?.name], ["two", "one"]);
    assert.equal(two?.endedAt, null);
    await second.close();
    const [gone] = await first.listNodes();
    assert.equal(gone?.id, second.cluster.self);
    assert.notEqual(gone.endedAt, null);
  });

  test("a step of the database's clock keeps nodes and roles, and every node sees it", async (t) => {
    const { url, setAhead } = await newDatabaseWithClock(t);
    const open = () => openQuickNode(t, url, { beatMs: 1000 });
    const stores = [await open(), await open(), await open()];
    await eventually("members", () => seeEachOther(...stores), 30_000);
    const held = () => stores.map(pausedBy);
    const isDivided = () => held().every(({ length }) => length > 0) && held().flat().length === 7;
    await eventually("divided", isDivided, 30_000);
    const before = { ids: stores.map(({ cluster }) => cluster.self), held: held() };
    const beats = stores.map(() => 0);
    stores.forEach(({ cluster }, i) =>
      cluster.tellFacts(() => {
        beats[i] = (beats[i] ?? 0) + 1;
        return newFacts();
      }),
    );

    for (let minutes = 1; minutes <= 2; minutes++) {
      await setAhead(minutes * 60_000);
      beats.fill(0);
      // Longer than a node lives without a heartbeat.
      await eventually("heartbeats", () => beats.every((count) => count > 6), 60_000);
      const after = { ids: stores.map(({ cluster }) => cluster.self), held: held() };
      assert.deepEqual(after, before);
      for (const { cluster } of stores) {
        assert(cluster.clock.now() - Date.now() > minutes * 60_000 - 30_000);
      }
    }
  });

  test("a node that joins after a clock step ends only dead nodes", async (t) => {
    const url = await newDatabaseUrl(t);
    const first = await openQuickNode(t, url, { beatMs: 1000 });
    const { self } = first.cluster;
    const { child } = await startNode(t, url);
    child.kill("SIGKILL");
    // A clock set forward has this effect until the next heartbeats.
    await askDatabase(url, "UPDATE nodes SET expires_at = expires_at - 300000");
    const second = await openQuickNode(t, url, { beatMs: 1000 });
    await eventually("members", () => seeEachOther(first, second));
    assert.equal(first.cluster.self, self);
  });

  test("a write of an ended node has no effect", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openQuickNode(t, url);
    const accountId = await seedAccount(store);
    const { self } = store.cluster;
    const task = newTask();

    await askDatabase(
      url,
      `UPDATE stripes SET node_seq = NULL; UPDATE nodes SET ended_at = 1 WHERE seq = ${self}`,
    );
    const refused = await store.insertTasks(newPost(accountId, [task])).then(
      () => null,
      (error: unknown) => error,
    );

    assert(refused instanceof StoreError && refused.kind === "unreachable");
    await eventually("back", () => store.cluster.isMember() && store.cluster.self !== self);
    assert.equal(await store.findTask({ accountId, id: task.id }), null);
    assert.deepEqual(await store.insertTasks(newPost(accountId, [task])), { kind: "inserted" });
  });
});
