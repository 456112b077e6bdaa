import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { admin } from "./account.ts";
import { bearer, Client, only, TIME, type Answer } from "./client.ts";
import { PART, type Served, type Subject } from "./subject.ts";

const TOKEN = /^pbd_work_[0-9A-Za-z]{40}$/;

const TOML = `
[limits]
result = "1KiB"
[types.echo]
runner = "echo"
[types.print]
runner = "worker"
lease = "30s"
[types.short]
runner = "worker"
lease = "5s"
`;

/** worker-protocol.md. */
export function exerciseWorkers(subject: Subject): void {
  test("workers, as in worker-protocol.md", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const service = new Client(served.url);
    const parts = {
      served,
      account: service.as(bearer(served.account.key)),
      worker: service.as(bearer(await newToken(served, "press", ["print", "short", "echo"]))),
    };
    await tokens(t, parts);
    await claims(t, parts);
    await leases(t, parts);
    await endings(t, parts);
  });
}

interface Parts {
  readonly served: Served;
  readonly account: Client;
  readonly worker: Client;
}

/** A task in the response of a claim. */
interface Claimed {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly input: unknown;
  readonly lease_id: string;
  readonly lease_expires_at: string;
  readonly run: number;
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

interface Lease {
  readonly id: string;
  readonly lease_id: string;
}

interface Told {
  readonly id: string | null;
  readonly outcome: string;
}

async function tokens(t: TestContext, { served, account }: Parts): Promise<void> {
  await t.test(
    "a worker's token opens the worker protocol alone, until it is revoked",
    async () => {
      const verdict = async (authorization: string): Promise<readonly [number, number]> => {
        const { status, body } = await ask(account.as(authorization), "heartbeat", { leases: [] });
        return [status, body.status_code];
      };
      const token = await newToken(served, "leaver", ["print"]);
      assert.match(token, TOKEN);
      assert.deepEqual(await verdict(bearer(token)), [200, 20000]);
      assert.deepEqual(await verdict(bearer(served.account.key)), [401, 40100]);
      assert.deepEqual(await account.as(bearer(token)).verdict(), [401, 40100]);
      await admin(served, ["worker", "revoke", "leaver"]);
      assert.deepEqual(await verdict(bearer(token)), [401, 40101]);
    },
  );
}

async function claims(t: TestContext, { account, worker }: Parts): Promise<void> {
  await t.test("a claim returns a task with its lease and every digit of its input", async () => {
    const input = '{"a":1.50,"b":[12345678901234567890,-0]}';
    const posted = only(await account.post(`{"type":"print","tag":"t","input":${input}}`));
    const answer = await ask(worker, "claim", { types: ["print"], max: 100 });
    assert.ok(answer.text.includes(`"input":${input}`), answer.text);
    const [task = assert.fail(), ...others] = itemsOf<Claimed>(answer);
    assert.equal(others.length, 0);
    const { lease_id: leaseId, lease_expires_at: expiresAt, input: _input, ...rest } = task;
    assert.deepEqual(rest, {
      ...{ id: posted.id, type: "print", tag: "t", marketplace: null, run: 1 },
      ...{ traceparent: null, tracestate: null },
    });
    assert.ok(leaseId.length > 0);
    assert.match(expiresAt, TIME);
    assert.equal(only(await account.get(posted.id)).state, "running");
    await complete(worker, [task]);
  });

  await t.test("a claim waits for a task, and returns at most max", async () => {
    const waiting = claim(worker, { types: ["print"], wait_seconds: 30 });
    await account.post({ type: "print" });
    const tasks = [...(await waiting)];
    await account.post([{ type: "print" }, { type: "print" }, { type: "print" }]);
    for (const [max, expected] of [
      [2, 2],
      [100, 1],
      [1, 0],
    ] as const) {
      const claimed = await claim(worker, { types: ["print"], max });
      assert.equal(claimed.length, expected);
      tasks.push(...claimed);
    }
    await complete(worker, tasks);
  });
}

async function leases(t: TestContext, { account, worker }: Parts): Promise<void> {
  await t.test("a heartbeat reports progress, and each lease's outcome", async () => {
    const [kept, cancelled] = await claimNew(account, worker, 2);
    assert.ok(kept !== undefined && cancelled !== undefined);
    await account.send(`/v1/tasks/task_cancel/${cancelled.id}`, { method: "POST" });
    const progress = { progress: 0.5, note: "half way" };
    const beat = [ref(kept), ref(cancelled), { ...ref(kept), lease_id: "other" }, null];
    const answer = await ask(worker, "heartbeat", { leases: beat, progress });

    assert.match(answer.text, /"drain":false/);
    assert.deepEqual(told(answer), [
      [kept.id, "ok"],
      [cancelled.id, "cancelled"],
      [kept.id, "lost"],
      [null, "lost"],
    ]);
    assert.deepEqual(only(await account.get(kept.id)).progress, progress);
    assert.deepEqual(await complete(worker, [cancelled, kept]), ["cancelled", "ok"]);
    assert.equal(only(await account.get(kept.id)).progress, null);
  });

  await t.test("a release returns a task to the queue without using up a run", async () => {
    const [first] = await claimNew(account, worker, 1);
    assert.ok(first !== undefined);
    const answer = await ask(worker, "release", { tasks: [ref(first)] });
    assert.deepEqual(told(answer), [[first.id, "ok"]]);
    const [second] = await claim(worker, { types: ["print"] });
    assert.deepEqual([second?.id, second?.run], [first.id, 1]);
    assert.ok(second !== undefined && second.lease_id !== first.lease_id);
    assert.deepEqual(await complete(worker, [first, second]), ["lost", "ok"]);
  });

  await t.test("a lease that expires returns its task and uses up a run", async () => {
    const posted = only(await account.post({ type: "short" }));
    const [first] = await claim(worker, { types: ["short"] });
    const [second] = await claim(worker, { types: ["short"], wait_seconds: 30 });
    assert.ok(first !== undefined && second !== undefined);
    assert.deepEqual([first.id, second.id, second.run], [posted.id, posted.id, 2]);
    assert.deepEqual(await complete(worker, [first, second, second]), ["lost", "ok", "ok"]);
    assert.equal(only(await account.get(posted.id)).runs, 2);
  });
}

async function endings(t: TestContext, { account, worker }: Parts): Promise<void> {
  await t.test(
    "complete keeps every digit of a result, and is the same when repeated",
    async () => {
      const [task, large] = await claimNew(account, worker, 2);
      assert.ok(task !== undefined && large !== undefined);
      const lease = `"id":"${task.id}","lease_id":"${task.lease_id}"`;
      const result = '{"a":1.50,"b":[12345678901234567890,-0]}';
      for (const each of [result, "2"]) {
        const answer = await ask(worker, "complete", `{"tasks":[{${lease},"result":${each}}]}`);
        assert.deepEqual(told(answer), [[task.id, "ok"]]);
      }
      await ask(worker, "complete", { tasks: [{ ...ref(large), result: "x".repeat(1024) }] });

      const { text } = await account.get(task.id);
      assert.ok(text.includes('"state":"completed"') && text.includes(`"result":${result}`), text);
      assert.equal(only(await account.get(large.id)).status_code, 50010, "limits.result");
    },
  );

  await t.test("fail queues a task again with retry, and ends it without", async () => {
    const [first] = await claimNew(account, worker, 1);
    assert.ok(first !== undefined);
    const retried = [{ ...ref(first), message: "not yet", retry: true }];
    assert.deepEqual(told(await ask(worker, "fail", { tasks: retried })), [[first.id, "ok"]]);
    const [second] = await claim(worker, { types: ["print"], wait_seconds: 30 });
    assert.ok(second !== undefined);
    assert.deepEqual([second.id, second.run], [first.id, 2]);
    const final = [{ ...ref(second), message: "never", detail: { why: [1] }, retry: false }];
    assert.deepEqual(told(await ask(worker, "fail", { tasks: final })), [[first.id, "ok"]]);

    const { state, status_code, error, runs } = only(await account.get(first.id));
    assert.deepEqual([state, status_code, runs], ["failed", 50010, 2]);
    assert.deepEqual(error, { message: "never", detail: { why: [1] } });
  });
}

async function newToken(served: Served, name: string, types: readonly string[]): Promise<string> {
  const words = types.flatMap((type) => ["--type", type]);
  const document: unknown = await admin(served, ["worker", "create", name, ...words]);
  return (document as { readonly worker: { readonly token: string } }).worker.token;
}

function ask(worker: Client, operation: string, body: unknown): Promise<Answer> {
  return worker.send(`/v1/worker/${operation}`, { body });
}

/** The tasks in a response to a worker. */
function itemsOf<Item>({ status, text }: Answer): readonly Item[] {
  assert.equal(status, 200, text);
  const { tasks, tasks_count } = JSON.parse(text) as {
    readonly tasks: readonly Item[];
    readonly tasks_count: number;
  };
  assert.equal(tasks_count, tasks.length);
  return tasks;
}

async function claim(worker: Client, body: object): Promise<readonly Claimed[]> {
  return itemsOf(await ask(worker, "claim", body));
}

/** Posts tasks and claims them. */
async function claimNew(
  account: Client,
  worker: Client,
  count: number,
): Promise<readonly Claimed[]> {
  await account.post(Array.from({ length: count }, () => ({ type: "print" })));
  const tasks = await claim(worker, { types: ["print"], max: 100 });
  assert.equal(tasks.length, count);
  return tasks;
}

function ref({ id, lease_id }: Lease): Lease {
  return { id, lease_id };
}

function told(answer: Answer): readonly (readonly [string | null, string])[] {
  return itemsOf<Told>(answer).map(({ id, outcome }) => [id, outcome]);
}

async function complete(worker: Client, tasks: readonly Lease[]): Promise<readonly string[]> {
  const answer = await ask(worker, "complete", { tasks: tasks.map(ref) });
  return itemsOf<Told>(answer).map(({ outcome }) => outcome);
}
