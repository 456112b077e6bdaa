import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clockAhead, forgetFakeTime, SettableClock } from "../../scripts/kit/fake-time.ts";
import type { Program } from "../../scripts/kit/program.ts";
import { afterwards } from "../helpers/afterwards.ts";
import type { ShownTask } from "../helpers/daemon.ts";
import { reasonToSkipFakeTime } from "../helpers/fake-time.ts";
import { askDatabase, eventually } from "../helpers/postgres-nodes.ts";
import { startPostgres } from "../helpers/postgres.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { startCluster, testedProgram } from "./start.ts";

const skip = reasonToSkipFakeTime();

const MINUTES_5 = 300;
// Far below five minutes, and more than a machine that is busy needs.
const NEAR_MS = 60_000;
const RETRY_MS = 1000;

/** The same program, by a clock that is so many seconds ahead. */
function programAhead(seconds: number): Program {
  const { name, command } = testedProgram();
  const variables = Object.entries(clockAhead(seconds)).map(([key, value]) => `${key}=${value}`);
  return { name, command: ["/usr/bin/env", ...variables, ...command] };
}

/** Daemons at five minutes ahead, behind, and right. */
async function startSkewed(t: TestContext, more: string) {
  const pids: number[] = [];
  afterwards(t, () => {
    for (const pid of pids) forgetFakeTime(pid);
  });
  const started = await startCluster(t, {
    more,
    programOf: (index) => programAhead([MINUTES_5, -MINUTES_5, 0][index] ?? 0),
  });
  pids.push(...started.cluster.nodes.map(({ daemon }) => daemon.pid));
  return started;
}

test("daemons whose clocks are ten minutes apart", { skip, timeout: 240_000 }, async (t) => {
  const more = `
[webhooks]
retry_after = ["${RETRY_MS / 1000}s"]
[types.x]
runner = "worker"
lease = "5s"
`;
  const { cluster, at } = await startSkewed(t, more);
  const places = [...cluster.nodes.keys()];
  const isNear = (time: string | null | undefined, to: number): void =>
    assert.ok(Math.abs(Date.parse(time ?? "") - to) < NEAR_MS, `${time} and ${to}`);

  await t.test("all go by the database's clock", async () => {
    for (const i of places) {
      const posted = Date.now();
      const task = await at((i + 1) % 3).ended(await at(i).post({ type: "echo" }));
      for (const time of [task.created_at, task.completed_at]) isNear(time, posted);
    }
  });

  await t.test("a start_at that one is told is kept by whichever runs the task", async () => {
    const starts = places.map(async (i) => {
      const startAt = Date.now() + 3000;
      const id = await at(i).post({ type: "echo", start_at: new Date(startAt).toISOString() });
      const { started_at: started } = (await at((i + 1) % 3).ended(id)) as Started;
      assert.ok(Date.parse(started ?? "") >= startAt, `${started}`);
      isNear(started, startAt);
    });
    await Promise.all(starts);
  });

  await t.test("a retry comes after its wait, whoever sends it", async (t) => {
    const reply = (_: unknown, index: number) =>
      ({ kind: "status", status: index === 0 ? 500 : 204 }) as const;
    for (const i of places) {
      const receiver = await startReceiver(t, { reply });
      const arrivals: number[] = [];
      await at(i).post({ type: "echo", postback_url: receiver.url() });
      for (const _ of [1, 2]) {
        await receiver.next();
        arrivals.push(performance.now());
      }
      const [first = 0, second = 0] = arrivals;
      const passedMs = second - first;
      assert.ok(passedMs > RETRY_MS / 2 && passedMs < NEAR_MS, `${passedMs} ms`);
    }
  });

  await t.test("a lease holds at all of them for its time, and no longer", async () => {
    const token = await cluster.createWorker("press", ["x"]);
    const called = cluster.nodes.map(({ url }) => ({ url, token }));
    const [ahead, behind] = called;
    assert.ok(ahead !== undefined && behind !== undefined);
    const id = await at(0).post({ type: "x" });
    const [task] = await claim(ahead, { types: ["x"], wait_seconds: 30 });
    assert.ok(task !== undefined);
    isNear(task.lease_expires_at, Date.now());
    for (const each of called) {
      const leases = [{ id, lease_id: task.lease_id }];
      const [beat] = await outcomesOf(each, "heartbeat", { leases });
      assert.equal(beat?.outcome, "ok");
    }
    const [again] = await claim(behind, { types: ["x"], wait_seconds: 30 });
    assert.deepEqual([again?.id, again?.run], [id, 2]);
  });

  await t.test("none of them thinks that a clock was set", () => {
    for (const { daemon } of cluster.nodes) assert.doesNotMatch(daemon.log, /clock/);
  });
});

interface Started extends ShownTask {
  readonly started_at: string | null;
}

const DUE = "SELECT due_at::float8 AS at FROM outbox";

for (const { name, seconds } of [
  { name: "back", seconds: -MINUTES_5 },
  { name: "forward", seconds: MINUTES_5 },
]) {
  test(
    `the database's clock is set five minutes ${name}`,
    { skip, timeout: 240_000 },
    async (t) => {
      const clock = new SettableClock();
      afterwards(t, () => clock[Symbol.dispose]());
      const postgres = await startPostgres(t, { env: clock.env });
      const { pid } = postgres;
      afterwards(t, () => forgetFakeTime(pid));
      const more =
        '\n[webhooks]\nretry_after = ["1h"]\n[types.x]\nrunner = "worker"\nlease = "60s"\n';
      const { cluster, at } = await startCluster(t, { url: postgres.url, more });
      const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
      await at(0).post({ type: "echo", postback_url: receiver.url() });
      const dueAt = async () => (await askDatabase<{ at: number }>(postgres.url, DUE))[0]?.at ?? 0;
      await receiver.next();
      const hasRetry = async () => (await dueAt()) > Date.now() + NEAR_MS;
      await eventually("the retry is on record", hasRetry, NEAR_MS);
      const before = await dueAt();
      const token = await cluster.createWorker("press", ["x"]);
      const leased = await at(0).post({ type: "x" });
      const [first, second] = cluster.nodes.map(({ url }) => ({ url, token }));
      assert.ok(first !== undefined && second !== undefined);
      const [task] = await claim(first, { types: ["x"], wait_seconds: 30 });
      assert.ok(task !== undefined);
      clock.setAhead(seconds);

      await t.test("what waits moves with it, once", async () => {
        const moved = async () => Math.abs((await dueAt()) - before) > NEAR_MS;
        await eventually("moved", moved, NEAR_MS);
        // All of them have noticed when each shows the new time.
        for (const i of cluster.nodes.keys()) {
          const isSet = async (): Promise<boolean> => {
            const { created_at: at_ } = await at(i).get(await at(i).post({ type: "echo" }));
            return Math.abs(Date.parse(at_) - Date.now() - seconds * 1000) < NEAR_MS;
          };
          await eventually("noticed", isSet, NEAR_MS);
        }
        const byMs = (await dueAt()) - before;
        assert.ok(Math.abs(byMs - seconds * 1000) < NEAR_MS, `${byMs} ms`);
      });

      await t.test("a lease is held still", async () => {
        const lease = { id: leased, lease_id: task.lease_id };
        const [beat] = await outcomesOf(second, "heartbeat", { leases: [lease] });
        assert.equal(beat?.outcome, "ok");
      });

      await t.test("no daemon has ended, nor taken another for dead", async () => {
        for (const { daemon } of cluster.nodes) {
          daemon.requireRunning();
          assert.doesNotMatch(daemon.log, /was not heard|no member/);
        }
        for (const i of cluster.nodes.keys()) {
          const { state, runs } = await at(i).ended(await at(i).post({ type: "echo" }));
          assert.deepEqual([state, runs], ["completed", 1]);
        }
      });
    },
  );
}
