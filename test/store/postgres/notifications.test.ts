import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { News } from "../../../src/store/common/write-rule.ts";
import {
  GatheredNews,
  PAYLOAD_BYTES_MAX,
  readNotification,
} from "../../../src/store/postgres/machine/notifications.ts";
import { tellingTransport } from "../../../src/store/postgres/writes.ts";
import type { Changes, Store } from "../../../src/store/store.ts";
import { askDatabase, eventually, openNode, openPair } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  claimOne,
  newFinish,
  newPost,
  newTask,
  newTaskCancels,
  newTaskId,
  seedAccount,
  webhook,
} from "../../helpers/store.ts";

/** The connections of a test's nodes that receive and send notifications. */
const listenersOf = (name: string): string => `
  FROM pg_stat_activity
  WHERE application_name = 'postbackd ${name}' AND (query LIKE 'LISTEN%' OR query LIKE 'SELECT pg_notify%')`;

/** All notifications of a store. */
function hear(store: Store): { readonly [Kind in keyof Changes]: Set<string> } {
  const heard = {
    accounts: new Set<string>(),
    types: new Set<string>(),
    lanes: new Set<string>(),
    ended: new Set<string>(),
  };
  store.watch(({ accounts, types, lanes, ended }) => {
    for (const account of accounts) heard.accounts.add(String(account));
    for (const type of types) heard.types.add(type);
    for (const { accountId, host } of lanes) heard.lanes.add(`${accountId} ${host}`);
    for (const id of ended) heard.ended.add(id);
  });
  return heard;
}

describe("notifications between nodes", { skip: reasonToSkipPostgres() }, () => {
  test("a node is notified of queued, due and ended work of the other, and of its own accounts", async (t) => {
    const { first, second } = await openPair(t);
    await eventually("members", () => first.cluster.membership().length === 2);
    const [own, other] = [hear(first), hear(second)];
    const accountId = await seedAccount(first);
    // The other node may not listen yet.
    await eventually("heard", async () => {
      await first.insertTasks(newPost(accountId, [newTask({ type: "probe" })]));
      return other.types.has("probe");
    });

    const [run, late, cancelled] = [
      newTask({ postback: webhook("a.example") }),
      newTask({ type: "late", startAt: Number.MAX_SAFE_INTEGER }),
      newTask({ type: "cancelled" }),
    ];
    await first.insertTasks(newPost(accountId, [run, late, cancelled]));
    const claimed = await claimOne(first);
    await first.finishTask({ ...newFinish(claimed), id: run.id });
    await first.cancelTasks(newTaskCancels(accountId, { ids: [cancelled.id] }));

    await eventually("ended", () => other.ended.size === 2);
    assert.deepEqual(other.ended, new Set([run.id, cancelled.id]));
    assert.deepEqual(other.types, new Set(["probe", "echo", "cancelled"]));
    assert.deepEqual(other.lanes, new Set([`${accountId} a.example`]));
    assert.deepEqual(other.accounts, new Set([String(accountId)]));
    assert.deepEqual(own.types.size + own.lanes.size + own.ended.size, 0);
    assert.deepEqual(own.accounts, new Set([String(accountId)]));
  });

  test("a node is notified again after a cut connection, and never of another schema", async (t) => {
    const node = { name: "cut", url: null, version: "0" };
    const { url, first, second } = await openPair(t, { node });
    const elsewhere = hear(await openNode(t, await newDatabaseUrl(t)));
    await eventually("members", () => first.cluster.membership().length === 2);
    const heard = hear(second);
    const listeners = `SELECT pid ${listenersOf("cut")}`;
    await eventually("both listen", async () => (await askDatabase(url, listeners)).length === 2);
    const accountId = await seedAccount(first);
    const post = (type: string) => first.insertTasks(newPost(accountId, [newTask({ type })]));
    await eventually("heard", async () => (await post("before"), heard.types.has("before")));

    await askDatabase(url, `SELECT pg_terminate_backend(pid) ${listenersOf("cut")}`);

    await eventually("heard again", async () => (await post("after"), heard.types.has("after")));
    assert.equal(elsewhere.types.size, 0);
  });

  test("nodes without notifications find queued work by polling", async (t) => {
    const node = { name: "silent", url: null, version: "0" };
    const { url, first, second } = await openPair(t, { notify: false, node });
    await eventually("members", () => first.cluster.membership().length === 2);
    const heard = hear(second);
    const accountId = await seedAccount(first);

    await first.insertTasks(newPost(accountId, [newTask()]));

    assert.deepEqual(await second.findWaitingTypes(["echo", "other"]), ["echo"]);
    assert.equal(heard.types.size, 0);
    const [row] = await askDatabase<{ count: number }>(
      url,
      `SELECT count(*)::int AS count ${listenersOf("silent")}`,
    );
    assert.equal(row?.count, 0);
  });
});

test("large notifications are sent in several payloads, each item once", () => {
  const gathered = new GatheredNews();
  const ended = Array.from({ length: 500 }, () => newTaskId());
  gathered.add({ ended, types: ["ü".repeat(100)], lanes: [{ accountId: 1, host: "a.example" }] });
  gathered.add({ ended, accounts: [7] });

  const payloads = gathered.take("me");

  assert(payloads.every((each) => Buffer.byteLength(each) <= PAYLOAD_BYTES_MAX));
  assert(payloads.length > 1);
  const read = payloads.map((each) => readNotification(each, "other"));
  assert.deepEqual(
    read.flatMap((each) => each?.ended ?? []),
    ended,
  );
  assert.deepEqual(read[0]?.types, ["ü".repeat(100)]);
  assert.deepEqual(read[0]?.lanes, [{ accountId: 1, host: "a.example" }]);
  assert.deepEqual(read.at(-1)?.accounts, [7]);
  assert.equal(gathered.isEmpty, true);
});

test("an invalid payload and the node's own payload are ignored", () => {
  const none = { accounts: [], types: [], lanes: [], ended: [] };
  for (const payload of ["", "{", "null", "7", '{"items":7}', '{"from":"me","items":[]}']) {
    assert.equal(readNotification(payload, "me"), null, payload);
  }
  assert.deepEqual(
    readNotification('{"items":[null,7,["t",7],["l","a"],["e"],["x","y"]]}', "me"),
    none,
  );
});

test("an end without effect sends no notification: its task may be running", async () => {
  const told: News[] = [];
  const finishTask = (id: string) => ({
    name: "finishTask",
    args: { ...newFinish({ seq: 1 }), id },
  });
  const [late, inTime] = [newTaskId(), newTaskId()];
  const transport = tellingTransport(
    {
      send: async () => ({
        ...{ kind: "committed", values: [null, []], rejected: [], changed: [], hasWritten: true },
      }),
      close: async () => {},
    },
    (news) => told.push(news),
  );
  await transport.send([finishTask(late), finishTask(inTime)]);
  assert.deepEqual(
    told.flatMap(({ ended }) => ended ?? []),
    [inTime],
  );
});
