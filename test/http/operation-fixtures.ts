import { ACTIVE_KEYS_MAX, newWebhookSecret } from "../../src/domain/account/key.ts";
import { listCursors, newCursorKey } from "../../src/http/list-cursor.ts";
import { createTestAccount, type TestAccount, type TestDaemon } from "../helpers/daemon.ts";
import { deliveryFilter, newOrder } from "../helpers/delivery.ts";
import { farStart } from "../helpers/far-start.ts";
import { newTaskId } from "../helpers/store.ts";
import { makeKey, revokeKeysOf } from "./account.ts";
import { atStore } from "./session-requests.ts";
import { createTestWorker } from "./worker-requests.ts";

/** Values of the named parts of paths. */
export interface Named {
  readonly id: string;
  readonly key_id: string;
  /** An account other than the caller's. */
  readonly login: string;
  readonly request_id: string;
  readonly order_id: string;
}

/** Things that exist before the first request. */
export interface Made {
  /** For good requests, which can be repeated: a cancelled task, a revoked key, a denied request, a cancelled order. */
  readonly used: Named;
  /** For requests of another account, which may change nothing: a queued task and an active key. */
  readonly untouched: Pick<Named, "id" | "key_id" | "order_id">;
  readonly unknown: Named;
}

/** A cursor for each operation whose cursors are sealed by the daemon's key, by the operation's id. */
export type Cursors = Readonly<Record<string, string>>;

/** The callers: an account by its key, a worker by its token, the operator by a session. */
export interface Callers extends Pick<TestDaemon, "account"> {
  readonly token: string;
  /** The header line of the operator's session. */
  readonly cookie: string;
  /** Keys and tokens that are refused or belong to another account. */
  readonly others: OtherCallers;
}

export interface OtherCallers {
  readonly stranger: TestAccount;
  readonly revoked: TestAccount;
  readonly disabled: TestAccount;
  readonly revokedToken: string;
}

export async function makeFixtures(daemon: TestDaemon): Promise<Made> {
  const task = { type: "echo", start_at: farStart() };
  const { tasks } = await daemon.post([task, task]);
  const [used = "", queued = ""] = tasks.map(({ id }) => id);
  await daemon.call(`/v1/tasks/task_cancel/${used}`, { method: "POST" });
  const { key_id } = await makeKey(daemon);
  for (let keys = 2; keys < ACTIVE_KEYS_MAX; keys++) await makeKey(daemon);
  await daemon.call(`/v1/appendix/keys/${key_id}`, { method: "DELETE" });
  const active = await makeKey(daemon);
  const operators = await makeOperatorFixtures(daemon);
  const { order_id } = operators;
  return {
    used: { id: used, key_id, ...operators },
    untouched: { id: queued, key_id: active.key_id, order_id },
    unknown: {
      ...{ id: newTaskId(Date.now()), key_id: `key_${"0".repeat(32)}`, login: "nobody" },
      ...{ request_id: newTaskId(), order_id: newTaskId() },
    },
  };
}

async function makeOperatorFixtures({ file, account }: TestDaemon) {
  const login = "alice";
  await createTestAccount(file, login);
  const [request_id, order_id] = [newTaskId(), newTaskId()];
  const fields = { email: "ada@example.com", name: null, company: null, message: null };
  await atStore(file, async (store) => {
    await store.rotateSecret({ login, next: newWebhookSecret() });
    await store.insertAccessRequest({ id: request_id, fields, createdAt: 0, pendingMax: 1 });
    await store.denyAccessRequest({ id: request_id, decidedAt: Date.now() });
    const filter = deliveryFilter({ login: account.login });
    await store.orderRedelivery({ ...newOrder({ id: order_id, filter }), openMax: null });
    await store.cancelRedeliveryOrder({ id: order_id, login: null, now: Date.now() });
  });
  return { login, request_id, order_id };
}

export async function makeOthers({ file }: TestDaemon): Promise<OtherCallers> {
  const stranger = await createTestAccount(file, "stranger");
  const revoked = await createTestAccount(file, "revoked");
  const disabled = await createTestAccount(file, "disabled");
  const revokedToken = await createTestWorker(file, ["print"], "gone");
  await atStore(file, async (store) => {
    await revokeKeysOf(store, "revoked");
    await store.setAccountDisabled({ login: "disabled", disabledAt: Date.now() });
    await store.revokeWorker({ name: "gone", revokedAt: Date.now() });
  });
  return { stranger, revoked, disabled, revokedToken };
}

export async function makeCursors({ file, account }: TestDaemon): Promise<Cursors> {
  return atStore(file, async (store) => {
    const fresh = newCursorKey();
    const { seal } = listCursors(await store.keepSecret({ name: "cursors", fresh }));
    const scope = (await store.findAccount(account.login))?.accountId ?? null;
    const place = { timeMs: 1, seq: 1 };
    return {
      listReadyTasks: seal(place, { list: "ready", scope }),
      listTasks: seal(place, { list: "tasks", scope }),
      searchTasks: seal(place, { list: "search", scope }),
      listAttempts: seal(place, { list: "webhooks", scope }),
      listAudit: seal(place, { list: "audit", scope: null }),
    };
  });
}
