import assert from "node:assert/strict";
import { test } from "node:test";

import { isWellFormedKey } from "../../src/domain/account/key.ts";
import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw } from "../helpers/raw-http.ts";
import { fieldsOf, keyDelete, keyPost, makeKey, USER_DATA, userDataOf } from "./account.ts";
import type { ShownKey, ShownNewKey } from "./account.ts";
import { ask, askOn, TASKS_READY, unlessBusy } from "./answer.ts";
import { NOW, startAt9 } from "./at-nine.ts";

test("a new key is shown whole once and works immediately", async (t) => {
  const daemon = await startTestDaemon(t, { clock: createFakeClock({ now: NOW }) });
  const label = `"'\\<b>&\u2028 ключ ${"𝒻".repeat(80)}`;
  const answer = await ask(daemon.url, keyPost(daemon, JSON.stringify({ label })));
  const body = fieldsOf<{ key: ShownNewKey }>(answer);
  const { key, key_id, last_four } = body.key;

  assert.equal(headerOf(answer.response, "cache-control"), "no-store");
  assert.deepEqual(body, {
    ...{ status_code: 20000, status_message: "Ok." },
    key: {
      ...{ key_id, key, prefix: "pbd_live_", last_four, label },
      created_at: "2030-01-31T09:00:00.000Z",
    },
  });
  assert(isWellFormedKey(key), key);
  assert.match(key_id, /^key_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  assert.equal(last_four, key.slice(-4));
  const mine = { url: daemon.url, account: { ...daemon.account, key } };
  const { keys } = await userDataOf(mine);
  assert.deepEqual([keys[1]?.key_id, keys[1]?.label], [key_id, label]);
  const both = JSON.stringify(await userDataOf(daemon)) + daemon.logLines.join("");
  assert.equal(both.includes(key.slice("pbd_live_".length, -4)), false);
});

clusterTest(
  "of fifty concurrent requests for a key nineteen succeed: an account has twenty active keys",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const asked = Array.from({ length: 50 }, () =>
      unlessBusy(() => ask(daemon.url, keyPost(daemon, "{}"))),
    );
    const answers = await Promise.all(asked);

    const made = answers.filter(({ code }) => code === 20000);
    const refused = answers.filter(({ code }) => code === 40910);
    assert.deepEqual([made.length, refused.length], [19, 31]);
    const { keys } = await userDataOf(daemon);
    assert.equal(keys.filter((key) => key.revoked_at === null).length, 20);
    const whole = made.map((answer) => fieldsOf<{ key: ShownNewKey }>(answer).key.key);
    assert.equal(new Set(whole).size, 19);
  },
);

test("an account makes a hundred keys an hour, and revoked keys are erased after the retention", async (t) => {
  const { clock, daemon } = await startAt9(t, "retention_days = 2\n");
  const other = await createTestAccount(daemon.file, "other");
  const ids = [];
  for (let i = 0; i < 100; i++) {
    const { key_id } = await makeKey(daemon);
    ids.push(key_id);
    await ask(daemon.url, keyDelete(daemon, key_id));
  }

  const late = await ask(daemon.url, keyPost(daemon));
  assert.equal(late.code, 42900);
  assert.equal(headerOf(late.response, "retry-after"), "3600");
  await makeKey({ url: daemon.url, account: other });
  clock.advance(HOUR_MS);
  const last = await makeKey(daemon);
  await ask(daemon.url, keyDelete(daemon, last.key_id));

  clock.jump(2 * 24 * HOUR_MS - HOUR_MS + 1);
  await daemon.daemon.idle();
  const beside = await openBeside(t, daemon);
  const keys = (await beside.listKeys(daemon.account.login)) ?? [];
  assert.deepEqual(
    keys.map(({ revokedAt }) => revokedAt),
    [null, NOW + HOUR_MS],
  );
});

clusterTest(
  "a revoked key is refused from the next request on, on the same connection too",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const { key, key_id } = await makeKey(daemon);
    const headers = [`Authorization: Bearer ${key}`];
    const connection = await openRaw(t, daemon.url);
    assert.equal((await askOn(connection, { target: TASKS_READY, headers })).code, 20000);

    assert.equal((await askOn(connection, keyDelete(daemon, key_id))).code, 20000);

    const refused = await askOn(connection, { target: TASKS_READY, headers });
    assert.equal(refused.code, 40101);
    assert.equal(refused.response.status, 401);
    assert.equal((await askOn(connection, { target: USER_DATA, headers })).code, 40101);
    assert.equal((await askOn(connection, keyDelete(daemon, key_id))).code, 20000);
  },
);

clusterTest("the last key may revoke itself", async (t) => {
  const daemon = await startTestDaemon(t);
  const [mine] = (await userDataOf(daemon)).keys;
  const connection = await openRaw(t, daemon.url);
  const answer = await askOn(connection, keyDelete(daemon, mine?.key_id ?? ""));

  assert.equal(answer.code, 20000);
  assert.notEqual(fieldsOf<{ key: ShownKey }>(answer).key.revoked_at, null);
  assert.equal((await askOn(connection, keyDelete(daemon, mine?.key_id ?? ""))).code, 40101);
});

test("no key, secret or label of a key is logged", async (t) => {
  const daemon = await startTestDaemon(t);
  const made = await makeKey(daemon, "LABEL-PRIVATE");
  const mine = { url: daemon.url, account: { ...daemon.account, key: made.key } };
  await ask(daemon.url, keyPost(mine, '{"label":1}'));
  await ask(daemon.url, keyDelete(mine, made.key));
  await ask(daemon.url, keyDelete(daemon, made.key_id));
  await ask(daemon.url, keyPost(mine));
  await daemon.daemon.stop();

  const log = daemon.logLines.join("");
  for (const secret of [made.key, daemon.account.key, daemon.account.secret, "LABEL-PRIVATE"]) {
    assert.equal(log.includes(secret.slice(-34)), false);
  }
});
