import assert from "node:assert/strict";
import { test } from "node:test";

import { isWellFormedKey } from "../../src/domain/account/key.ts";
import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw, toChunks } from "../helpers/raw-http.ts";
import {
  fieldsOf,
  keyDelete,
  keyPost,
  KEYS,
  makeKey,
  revokeKeysOf,
  USER_DATA,
  userDataOf,
} from "./account.ts";
import type { ShownKey, ShownNewKey } from "./account.ts";
import { ask, askOn, bearer, JSON_TYPE, TASKS_READY, unlessBusy } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

test("a new key is shown whole once, with what listings show of it, and works at once", async (t) => {
  const daemon = await startTestDaemon(t, { clock: createFakeClock({ now: NOW }) });
  const answer = await ask(daemon.url, keyPost(daemon, '{"label":"ci"}'));
  const body = fieldsOf<{ key: ShownNewKey }>(answer);
  const { key, key_id, last_four } = body.key;

  assert.equal(headerOf(answer.response, "cache-control"), "no-store");
  assert.deepEqual(body, {
    ...{ status_code: 20000, status_message: "Ok." },
    key: {
      ...{ key_id, key, prefix: "pbd_live_", last_four, label: "ci" },
      created_at: "2030-01-31T09:00:00.000Z",
    },
  });
  assert(isWellFormedKey(key), key);
  assert.match(key_id, /^key_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  assert.equal(last_four, key.slice(-4));
  const mine = { url: daemon.url, account: { ...daemon.account, key } };
  const { keys } = await userDataOf(mine);
  assert.equal(keys[1]?.key_id, key_id);
  const both = JSON.stringify(await userDataOf(daemon)) + daemon.logLines.join("");
  assert.equal(both.includes(key.slice("pbd_live_".length, -4)), false);
});

test("a key needs no label and its request no body", async (t) => {
  const daemon = await startTestDaemon(t);
  const target = KEYS;
  const chunked = [bearer(daemon), JSON_TYPE, "Transfer-Encoding: chunked"];
  const requests = [
    keyPost(daemon),
    { method: "POST", target, headers: [bearer(daemon), "Content-Length: 0"] },
    { method: "POST", target, headers: [bearer(daemon), "Content-Type: text/plain"], body: "" },
    keyPost(daemon, "{}"),
    keyPost(daemon, ' \n{"label":null} '),
    { method: "POST", target, headers: chunked, body: toChunks("{}") },
  ];
  for (const request of requests) {
    const answer = await ask(daemon.url, request);
    assert.equal(answer.code, 20000, JSON.stringify(request));
    assert.equal(fieldsOf<{ key: ShownNewKey }>(answer).key.label, null);
  }
  assert.equal((await userDataOf(daemon)).keys.length, 1 + requests.length);
});

test("a label comes back as it was given, up to 100 code points of any script", async (t) => {
  const daemon = await startTestDaemon(t);
  const labels = [
    "",
    " ",
    "ci",
    "𝒻".repeat(100),
    "x".repeat(100),
    "ключ",
    `"'\\<b>&`,
    "\u00a0\u2028",
  ];
  for (const label of labels) {
    const { label: got, key_id } = await makeKey(daemon, label);
    assert.equal(got, label);
    const listed = (await userDataOf(daemon)).keys.find((key) => key.key_id === key_id);
    assert.equal(listed?.label, label);
  }
});

test("a bad label makes no key, and the answer says which field and what it must be", async (t) => {
  const daemon = await startTestDaemon(t);
  const labels = [
    `"${"x".repeat(101)}"`,
    `"${"𝒻".repeat(101)}"`,
    `"${"x".repeat(8000)}"`,
    '"a\\u0000b"',
    '"a\\nb"',
    '"\\t"',
    '"\\u001b[31m"',
    '"\\u007f"',
    '"\\u0085"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    "1",
    "12345678901234567890.10",
    "true",
    "[]",
    '["ci"]',
    '{"toString":"ci"}',
  ];
  for (const label of labels) {
    const answer = await ask(daemon.url, keyPost(daemon, `{"label":${label}}`));
    const { code, body } = answer;
    assert.equal(code, 40501, label.slice(0, 40));
    assert.deepEqual(
      body.errors?.map(({ pointer }) => pointer),
      ["/label"],
    );
    const detail = body.errors?.[0]?.detail;
    const message = fieldsOf<{ status_message: string }>(answer).status_message;
    assert.equal(message, `Invalid Field: 'label'. ${detail}`);
    assert.match(detail ?? "", /at most 100 characters/);
  }
  assert.equal((await userDataOf(daemon)).keys.length, 1);
});

test("a field that is not known makes no key, whatever its name is made of", async (t) => {
  const daemon = await startTestDaemon(t);
  const names = [
    ["", "/"],
    ["a/b~c", "/a~1b~0c"],
    ["__proto__", "/__proto__"],
    ["constructor", "/constructor"],
    ["toString", "/toString"],
    ["REASON", "/REASON"],
    ["$&", "/$&"],
    ["\u0000", "/\u0000"],
    ["\ud800", "/\ufffd"],
    ["x".repeat(5000), `/${"x".repeat(64)}…`],
  ] as const;
  for (const [name, pointer] of names) {
    const body = `{"label":"ci",${JSON.stringify(name)}:{"label":"x"}}`;
    const answer = await ask(daemon.url, keyPost(daemon, body));
    assert.equal(answer.code, 40501, name.slice(0, 40));
    assert.deepEqual(answer.body.errors, [{ pointer, detail: "It is not known here." }]);
  }
  const misspelt = await ask(daemon.url, keyPost(daemon, '{"lable":"ci"}'));
  const detail = "It is not known here (the nearest is 'label').";
  assert.deepEqual(misspelt.body.errors, [{ pointer: "/lable", detail }]);
  assert.equal((await userDataOf(daemon)).keys.length, 1);
});

test("every bad field is named, the first in the message, and never more than twenty", async (t) => {
  const daemon = await startTestDaemon(t);
  const some = await ask(daemon.url, keyPost(daemon, '{"b":1,"label":1,"a":2}'));
  const pointers = some.body.errors?.map(({ pointer }) => pointer);
  assert.deepEqual(pointers, ["/b", "/a", "/label"]);
  assert.match(fieldsOf<{ status_message: string }>(some).status_message, /^Invalid Field: 'b'\. /);

  const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`f${i}`, i]));
  const answer = await ask(daemon.url, keyPost(daemon, JSON.stringify(many)));
  assert.equal(answer.body.errors?.length, 20);
});

test("of two labels in one body the last one counts", async (t) => {
  const daemon = await startTestDaemon(t);
  const answer = await ask(daemon.url, keyPost(daemon, '{"label":1,"label":"b"}'));
  assert.equal(fieldsOf<{ key: ShownNewKey }>(answer).key.label, "b");
});

test("a body that is no JSON object is refused in the contract's order, and no key is made", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "[limits]\nbody = 1024\n" });
  const key = bearer(daemon);
  const post = { method: "POST", target: KEYS };
  const cases = [
    [40503, { ...post, headers: [key, JSON_TYPE], body: "[]" }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: '[{"label":"ci"}]' }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: "null" }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: "1" }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: "12345678901234567890" }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: '"ci"' }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: '{"label":"ci"' }],
    [
      40503,
      { ...post, headers: [key, JSON_TYPE], body: Buffer.from('{"label":"\xff"}', "latin1") },
    ],
    [40503, { ...post, headers: [key, JSON_TYPE], body: `${"[".repeat(500)}${"]".repeat(500)}` }],
    [41500, { ...post, headers: [key], body: "{}" }],
    [41500, { ...post, headers: [key, "Content-Type: text/plain"], body: "x".repeat(2000) }],
    [41500, { ...post, headers: [key, JSON_TYPE, "Content-Encoding: gzip"], body: "{}" }],
    [41300, { ...post, headers: [key, JSON_TYPE], body: "x".repeat(1025) }],
    [40000, { ...post, target: `${KEYS}?label=ci`, headers: [key] }],
    [40100, { ...post, headers: [JSON_TYPE], body: "[]" }],
    [40500, { method: "GET", target: KEYS, headers: [key] }],
    [40500, { method: "PUT", target: `${KEYS}/key_1`, headers: [key] }],
    [40400, { method: "DELETE", target: `${KEYS}/a/b`, headers: [key] }],
  ] as const;
  for (const [code, request] of cases) {
    assert.equal((await ask(daemon.url, request)).code, code, JSON.stringify(request));
  }
  assert.equal((await userDataOf(daemon)).keys.length, 1);
});

clusterTest(
  "of fifty keys asked for at once nineteen are made: an account has twenty active ones",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const asked = Array.from({ length: 50 }, () =>
      unlessBusy(() => ask(daemon.url, keyPost(daemon, "{}"))),
    );
    const answers = await Promise.all(asked);

    const made = answers.filter(({ code }) => code === 20000);
    const refused = answers.filter(({ code }) => code === 40910);
    assert.deepEqual([made.length, refused.length], [19, 31]);
    assert.equal(refused[0]?.response.status, 409);
    assert.match(refused[0]?.body.errors?.[0]?.detail ?? "", /revoke one first/);
    const { keys } = await userDataOf(daemon);
    assert.equal(keys.filter((key) => key.revoked_at === null).length, 20);
    const whole = made.map((answer) => fieldsOf<{ key: ShownNewKey }>(answer).key.key);
    assert.equal(new Set(whole).size, 19);
  },
);

clusterTest(
  "a revoked key makes room for one, and other accounts have their own twenty",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const other = await createTestAccount(daemon.file, "other");
    const ids = [];
    for (let i = 0; i < 19; i++) ids.push((await makeKey(daemon)).key_id);
    assert.equal((await ask(daemon.url, keyPost(daemon))).code, 40910);

    await makeKey({ url: daemon.url, account: other });
    await ask(daemon.url, keyDelete(daemon, ids[0] ?? ""));
    await makeKey(daemon);

    assert.equal((await ask(daemon.url, keyPost(daemon))).code, 40910);
  },
);

test("an account makes a hundred keys an hour, and revoked ones are erased after the retention", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: "retention_days = 2\n" });
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
  "a revoked key is refused on the very next request of the same connection",
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

test("revoking a key again answers the same, also when time has gone by", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const made = await makeKey(daemon, "old");
  clock.advance(1000);
  const first = await ask(daemon.url, keyDelete(daemon, made.key_id));
  clock.advance(3_600_000);
  const second = await ask(daemon.url, keyDelete(daemon, made.key_id));

  const { key: _whole, ...shown } = made;
  assert.deepEqual(fieldsOf<{ key: ShownKey }>(first).key, {
    ...shown,
    last_used_at: null,
    revoked_at: "2030-01-31T09:00:01.000Z",
  });
  assert.deepEqual(second.response.body, first.response.body);
});

test("a key that is unknown, malformed or another account's is 40400, and all three look the same", async (t) => {
  const daemon = await startTestDaemon(t);
  const other = { url: daemon.url, account: await createTestAccount(daemon.file, "other") };
  const { key_id } = await makeKey(other);
  const ids = [
    key_id,
    `key_${"0".repeat(32)}`,
    "key_01980f2a4c7e7b3f9d20a1b2c3d4e5f6",
    key_id.toUpperCase(),
    ` ${key_id}`.replace(" ", "%20"),
    `${key_id}%00`,
    key_id.slice(4),
    "key_",
    "nonsense",
    "1",
    "__proto__",
    "%27%20OR%201=1%20--",
    "*",
    "x".repeat(5000),
    daemon.account.key,
  ];
  const answers = [];
  for (const id of ids) answers.push(await ask(daemon.url, keyDelete(daemon, id)));

  for (const [i, { code, body }] of answers.entries()) {
    assert.equal(code, 40400, ids[i]?.slice(0, 60));
    assert.deepEqual(body, { status_code: 40400, status_message: "Not Found." });
  }
  const names = answers.map(({ response }) => response.headers.map(([name]) => name).join());
  assert.equal(new Set(names).size, 1);
  const { keys } = await userDataOf(other);
  assert.deepEqual(
    keys.map((key) => key.revoked_at),
    [null, null],
  );
});

clusterTest("the key that authenticates may revoke itself, the last one too", async (t) => {
  const daemon = await startTestDaemon(t);
  const [mine] = (await userDataOf(daemon)).keys;
  const connection = await openRaw(t, daemon.url);
  const answer = await askOn(connection, keyDelete(daemon, mine?.key_id ?? ""));

  assert.equal(answer.code, 20000);
  assert.notEqual(fieldsOf<{ key: ShownKey }>(answer).key.revoked_at, null);
  assert.equal((await askOn(connection, keyDelete(daemon, mine?.key_id ?? ""))).code, 40101);
});

test("a body that a revocation came with is not taken for the next request", async (t) => {
  const daemon = await startTestDaemon(t);
  const { key_id } = await makeKey(daemon);
  const connection = await openRaw(t, daemon.url);
  const body = `GET /livez HTTP/1.1\r\nHost: x\r\n\r\n${"x".repeat(100_000)}`;
  assert.equal((await askOn(connection, { ...keyDelete(daemon, key_id), body })).code, 20000);

  const next = await askOn(connection, { target: USER_DATA, headers: [bearer(daemon)] });
  assert.equal(next.code, 20000);
});

clusterTest(
  "what another process does to keys and accounts counts on the next request of a kept connection",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const beside = await openBeside(t, daemon);
    const { login } = daemon.account;
    const connection = await openRaw(t, daemon.url);
    const request = { target: USER_DATA, headers: [bearer(daemon)] };
    const codeNow = async () => (await askOn(connection, request)).code;

    assert.equal(await codeNow(), 20000);
    await beside.setAccountDisabled({ login, disabledAt: NOW });
    assert.equal(await codeNow(), 40102);
    await beside.setAccountDisabled({ login, disabledAt: null });
    assert.equal(await codeNow(), 20000);
    await revokeKeysOf(beside, login);
    assert.equal(await codeNow(), 40101);
  },
);

test("no key, secret or label of a key is ever logged", async (t) => {
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
