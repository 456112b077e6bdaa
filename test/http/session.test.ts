import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test, type TestContext } from "node:test";

import type { Session } from "../../src/api/operator.ts";
import { version } from "../../src/assets.ts";
import { newKey } from "../../src/domain/account/key.ts";
import { HOUR_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { exchange, headerLines, headerOf, type RawRequest } from "../helpers/raw-http.ts";
import { sessionName } from "../helpers/session-name.ts";
import { fieldsOf, revokeKeysOf, USER_DATA, type UserData } from "./account.ts";
import { ask, bearer, codeOf, complaints, TASKS_READY } from "./answer.ts";
import { SOUND, startRing } from "./ring.ts";
import {
  atStore,
  cookieLine,
  createLink,
  createOperatorSession,
  FROM_PAGE,
  keySignIn,
  LINK,
  pageGet,
  pagePost,
  SESSION,
  signedIn,
  signInByKey,
} from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

async function sessionOf(daemon: TestDaemon, secret: string): Promise<Session | null> {
  const answer = await ask(daemon.url, pageGet(daemon, secret, { target: SESSION }));
  assert.equal(answer.code, 20000);
  return fieldsOf<{ session: Session | null }>(answer).session;
}

async function startAt(t: TestContext): Promise<{ daemon: TestDaemon; clock: FakeClock }> {
  const clock = createFakeClock({ now: NOW });
  return { daemon: await startTestDaemon(t, { clock }), clock };
}

async function loginOf(daemon: TestDaemon, request: RawRequest): Promise<string> {
  return fieldsOf<UserData>(await ask(daemon.url, request)).login;
}

test("a login and a key open a session, whose cookie is HttpOnly and stored as a hash", async (t) => {
  const { daemon, clock } = await startAt(t);

  const { answer, secret } = await signedIn(daemon.url, keySignIn(daemon));

  const expected = {
    ...{ role: "account", login: "tester", expires_at: "2030-01-31T21:00:00.000Z" },
    ...{ idle_seconds: 1800, version, time: "2030-01-31T09:00:00.000Z" },
  };
  assert.deepEqual(fieldsOf<{ session: Session }>(answer).session, expected);
  assert.equal(headerOf(answer.response, "cache-control"), "no-store");
  assert.deepEqual(await sessionOf(daemon, secret), expected);
  assert.equal(await loginOf(daemon, pageGet(daemon, secret)), "tester");
  const cookie = `${sessionName(daemon.url)}=${secret}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict`;
  assert.deepEqual(headerLines(answer.response, "set-cookie"), [cookie]);
  assert.equal(Buffer.from(secret, "base64url").length, 32);
  await atStore(daemon.file, async (store) => {
    assert.notEqual(await store.findSession(hash("sha256", secret, "hex")), null);
    assert.equal(await store.findSession(secret), null);
  });
  // The sign-in is a use of the key, and a request of the session is not.
  clock.advance(MINUTE_MS);
  const { keys } = fieldsOf<UserData>(await ask(daemon.url, pageGet(daemon, secret)));
  assert.deepEqual(
    keys.map((key) => key.last_used_at),
    ["2030-01-31T09:00:00.000Z"],
  );
});

test("the operator signs in with a link and names an account by X-Account, a disabled one too", async (t) => {
  const { daemon } = await startAt(t);
  await createTestAccount(daemon.file, "bob");
  await atStore(daemon.file, (store) =>
    store.setAccountDisabled({ login: "bob", disabledAt: NOW }),
  );
  const token = await createLink(daemon.file, NOW + 1);

  const { answer, secret } = await signedIn(daemon.url, pagePost(LINK, { token }));

  const { session } = fieldsOf<{ session: Session }>(answer);
  assert.deepEqual([session.role, session.login], ["operator", null]);
  const naming = (...logins: string[]) =>
    pageGet(daemon, secret, { others: logins.map((login) => `X-Account: ${login}`) });
  for (const login of ["tester", "bob"]) {
    assert.equal(await loginOf(daemon, naming(login)), login);
  }
  assert.equal(await codeOf(daemon.url, naming()), 40301);
  assert.equal(await codeOf(daemon.url, naming("tester", "bob")), 40000);
  for (const login of ["nobody", "", "Tester", "tester ,bob", "%74ester", "x".repeat(5000)]) {
    assert.equal(await codeOf(daemon.url, naming(login)), 40400, login);
  }
});

test("X-Account is ignored unless the operator sends it", async (t) => {
  const { daemon } = await startAt(t);
  await createTestAccount(daemon.file, "bob");
  const others = ["X-Account: bob"];
  const bySession = pageGet(daemon, await signInByKey(daemon), { others });
  const byKey = { target: USER_DATA, headers: [bearer(daemon), ...others] };

  for (const request of [bySession, byKey]) {
    assert.equal(await loginOf(daemon, request), "tester");
  }
});

test("operations of the operator are 40301 for an account's key or session, and 40100 without either", async (t) => {
  const { daemon } = await startAt(t);
  const target = "/v1/operator/system";
  const account = cookieLine(daemon.url, await signInByKey(daemon));
  const operator = cookieLine(daemon.url, await createOperatorSession(daemon.file, NOW));
  const callers: readonly (readonly [readonly string[], number])[] = [
    [[operator], 20000],
    [[account], 40301],
    [[account, "X-Account: tester"], 40301],
    [[bearer(daemon)], 40301],
    // A key counts before a cookie.
    [[bearer(daemon), operator], 40301],
    [[], 40100],
    [["X-Account: tester"], 40100],
    [[cookieLine(daemon.url, "x".repeat(43))], 40100],
  ];
  for (const [credentials, code] of callers) {
    const headers = [...FROM_PAGE, ...credentials];
    assert.equal(await codeOf(daemon.url, { target, headers }), code, credentials.join());
  }
});

test("a sign-in with wrong credentials gets no cookie and no Basic challenge", async (t) => {
  const { daemon } = await startAt(t);
  const { login, key } = daemon.account;
  const other = await createTestAccount(daemon.file, "bob");
  const refused: readonly (readonly [login: string, key: string])[] = [
    [login, newKey().key],
    [login, "nonsense"],
    [login, other.key],
    [login, ""],
    ["nobody", key],
    ["Tester", key],
  ];
  for (const [given, by] of refused) {
    const { response, code } = await ask(daemon.url, pagePost(SESSION, { login: given, key: by }));
    assert.equal(code, 40100, `${given} ${by}`);
    assert.deepEqual(headerLines(response, "set-cookie"), []);
    assert.equal(headerOf(response, "cache-control"), "no-store");
    assert.deepEqual(headerLines(response, "www-authenticate"), ['Bearer realm="postbackd"']);
    assert.ok(!response.body.toString().includes(key));
  }
  await atStore(daemon.file, (store) => store.setAccountDisabled({ login, disabledAt: NOW }));
  assert.equal(await codeOf(daemon.url, keySignIn(daemon)), 40102);
  await atStore(daemon.file, (store) => revokeKeysOf(store, login, NOW));
  assert.equal(await codeOf(daemon.url, keySignIn(daemon)), 40101);
});

test("every link that is used, expired, malformed or unknown gets the same 40100", async (t) => {
  const { daemon, clock } = await startAt(t);
  const [used, late] = [
    await createLink(daemon.file, NOW + MINUTE_MS),
    await createLink(daemon.file, NOW + MINUTE_MS),
  ];
  const use = (token: string) => ask(daemon.url, pagePost(LINK, { token }));
  assert.equal((await use(used)).code, 20000);
  clock.advance(MINUTE_MS);

  const bodies = new Set<string>();
  const unknown = `pbd_link_${"x".repeat(43)}`;
  for (const token of [used, late, `${late}x`, late.slice(9), "", "pbd_link_", unknown]) {
    const { code, response } = await use(token);
    assert.deepEqual([code, headerOf(response, "set-cookie")], [40100, null], token);
    bodies.add(response.body.toString());
  }
  assert.equal(bodies.size, 1);
});

test("refused sign-ins count with other refused credentials, and never refuse the right key", async (t) => {
  const toml = "[limits]\nfailed_authentications_per_minute = 3\n";
  const daemon = await startTestDaemon(t, { toml });
  const guess = pagePost(SESSION, { login: "tester", key: newKey().key });
  const codes: (number | null)[] = [];
  for (const request of [guess, pagePost(LINK, { token: "x" }), guess, guess]) {
    const { code, response } = await ask(daemon.url, request);
    codes.push(code);
    assert.equal(headerOf(response, "retry-after") !== null, code === 42900);
  }

  assert.deepEqual(codes, [40100, 40100, 40100, 42900]);
  assert.equal(await codeOf(daemon.url, { target: TASKS_READY }), 42900);
  assert.equal(await codeOf(daemon.url, keySignIn(daemon)), 20000);
});

test("a key revoked during its sign-in is 40101, and a key of a disabled account 40102", async (t) => {
  for (const [code, change] of [
    [40101, { keyRevoked: true }],
    [40102, { accountDisabled: true }],
  ] as const) {
    let changes = {};
    const ring = await startRing(t, {
      store: {
        async findKeyHolder(hash) {
          const found = (await SOUND.findKeyHolder(hash)) ?? assert.fail();
          return { ...found, ...changes };
        },
        async createSession({ sessionsMax }) {
          assert.equal(sessionsMax, 20);
          changes = change;
          return "refused";
        },
      },
    });
    const request = pagePost(SESSION, { login: "tester", key: newKey().key });
    assert.equal(await codeOf(ring.url, request), code);
  }
});

test("an account signs in a hundred times an hour, and other accounts still sign in after that", async (t) => {
  const { daemon, clock } = await startAt(t);
  const other = { account: await createTestAccount(daemon.file, "other") };
  for (let i = 0; i < 100; i++) await signInByKey(daemon);

  const { code, response } = await ask(daemon.url, keySignIn(daemon));

  assert.equal(code, 42900);
  assert.equal(headerOf(response, "retry-after"), "3600");
  assert.deepEqual(headerLines(response, "set-cookie"), []);
  await signedIn(daemon.url, keySignIn(other));
  assert.equal(await codeOf(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] }), 20000);
  clock.advance(HOUR_MS);
  await signInByKey(daemon);
});

test("a session ends after 30 minutes without a request, and automatic refreshes do not extend it", async (t) => {
  const { daemon, clock } = await startAt(t);
  const secret = await signInByKey(daemon);
  const use = (...others: string[]) => codeOf(daemon.url, pageGet(daemon, secret, { others }));
  for (let used = 0; used < 2; used++) {
    clock.advance(30 * MINUTE_MS - 1);
    assert.equal(await use(), 20000);
  }
  clock.advance(29 * MINUTE_MS);
  assert.equal(await use("X-Refresh: automatic"), 20000);
  clock.advance(MINUTE_MS);

  assert.equal(await use(), 40100);
  assert.equal(await sessionOf(daemon, secret), null);
});

test("a session ends after 12 hours, however recently it was used", async (t) => {
  const { daemon, clock } = await startAt(t);
  const secret = await createOperatorSession(daemon.file, NOW - 12 * HOUR_MS + 1000);
  await atStore(daemon.file, async (store) => {
    const found = await store.findSession(hash("sha256", secret, "hex"));
    await store.touchSessions([{ sessionId: found?.sessionId ?? -1, seenAt: NOW }]);
  });
  clock.advance(999);
  assert.equal((await sessionOf(daemon, secret))?.expires_at, "2030-01-31T09:00:01.000Z");
  clock.advance(1);

  assert.equal(await sessionOf(daemon, secret), null);
  const others = ["X-Account: tester"];
  assert.equal(await codeOf(daemon.url, pageGet(daemon, secret, { others })), 40100);
});

test("a session and a link that a wrong clock dated far ahead have ended once the clock is right", async (t) => {
  const { daemon } = await startAt(t);
  const ahead = NOW + 365 * 24 * HOUR_MS;
  const far = await createOperatorSession(daemon.file, ahead);
  const near = await createOperatorSession(daemon.file, NOW + MINUTE_MS);
  assert.equal(await sessionOf(daemon, far), null);
  assert.equal((await sessionOf(daemon, near))?.role, "operator");

  const token = await createLink(daemon.file, ahead);
  assert.equal(await codeOf(daemon.url, pagePost(LINK, { token })), 40100);
});

test("the last use of a session survives a restart", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const first = await startTestDaemon(t, { clock });
  const { folder, account } = first;
  const secret = await signInByKey(first);
  clock.advance(29 * MINUTE_MS);
  await ask(first.url, pageGet(first, secret));
  await first.daemon.stop();
  clock.advance(29 * MINUTE_MS);

  const second = await startTestDaemon(t, { clock, folder, account });

  assert.equal(await codeOf(second.url, pageGet(second, secret)), 20000);
});

test("a sign-out ends the session and removes the cookie, and may be repeated", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await signInByKey(daemon);
  const headers = [...FROM_PAGE, cookieLine(daemon.url, secret)];
  for (const lines of [headers, headers, FROM_PAGE]) {
    const answer = await ask(daemon.url, { method: "DELETE", target: SESSION, headers: lines });

    assert.deepEqual(fieldsOf<{ session: null }>(answer).session, null);
    const taken = `${sessionName(daemon.url)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
    assert.deepEqual(headerLines(answer.response, "set-cookie"), [taken]);
  }
  assert.equal(await codeOf(daemon.url, pageGet(daemon, secret)), 40100);
});

test("a key revoked by another process ends its sessions at the next request, and no others", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await signInByKey(daemon);
  const operator = await createOperatorSession(daemon.file, NOW);
  await atStore(daemon.file, (store) => revokeKeysOf(store, "tester", NOW));

  const { code, response } = await ask(daemon.url, pageGet(daemon, secret));

  assert.equal(code, 40100);
  assert.match(headerOf(response, "set-cookie") ?? "", /=; Path=\/; Max-Age=0;/);
  assert.deepEqual(headerLines(response, "www-authenticate"), ['Bearer realm="postbackd"']);
  assert.equal(await sessionOf(daemon, secret), null);
  assert.notEqual(await sessionOf(daemon, operator), null);
});

test("requests of an account's session count for its limit, and the operator's for no limit", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "[limits]\nrequests_per_minute = 2\n" });
  const secret = await signInByKey(daemon);
  const operator = await createOperatorSession(daemon.file);
  for (const code of [20000, 20000, 42900]) {
    assert.equal(await codeOf(daemon.url, pageGet(daemon, secret)), code);
  }

  assert.equal(await codeOf(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] }), 42900);
  const others = ["X-Account: tester"];
  const { code, response } = await ask(daemon.url, pageGet(daemon, operator, { others }));
  assert.equal(code, 20000);
  assert.deepEqual(headerLines(response, "ratelimit"), []);
});

test("a 401 to the dashboard has no Basic challenge, and to other clients both challenges", async (t) => {
  const { daemon } = await startAt(t);
  const challengesOf = async (...headers: string[]): Promise<readonly string[]> => {
    const { response } = await ask(daemon.url, { target: USER_DATA, headers });
    return headerLines(response, "www-authenticate");
  };
  const page = "X-Requested-With: postbackd";

  assert.deepEqual(await challengesOf(page), ['Bearer realm="postbackd"']);
  assert.deepEqual(await challengesOf(page, "Authorization: Bearer x"), [
    'Bearer realm="postbackd", error="invalid_token"',
  ]);
  for (const others of [[], ["X-Requested-With: XMLHttpRequest"]]) {
    assert.match((await challengesOf(...others)).join(" "), /^Basic .* Bearer /);
  }
});

test("public operations and operations of workers ignore cookies", async (t) => {
  const { daemon } = await startAt(t);
  const cookie = cookieLine(daemon.url, await createOperatorSession(daemon.file, NOW));
  const headers = [cookie, "Sec-Fetch-Site: cross-site", "Host: evil.test"];
  const status = { target: "/v1/appendix/status", headers, host: false } as const;

  assert.equal(await codeOf(daemon.url, status), 20000);
  const claim = { ...status, method: "POST", target: "/v1/worker/claim" };
  assert.equal(await codeOf(daemon.url, claim), 40100);
});

test("with dashboard = false sessions, pages and operations of the operator do not exist", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "dashboard = false\n" });
  const operator = await createOperatorSession(daemon.file);
  const headers = [...FROM_PAGE, cookieLine(daemon.url, operator), "Accept: text/html"];
  const targets = [SESSION, "/v1/operator/system", "/v1/events", "/dashboard/", "/dashboard"];
  const signIns = [keySignIn(daemon), pagePost(LINK, { token: "x" })];
  for (const request of [...targets.map((target) => ({ target, headers })), ...signIns]) {
    assert.equal(await codeOf(daemon.url, request), 40400, request.target);
  }
  assert.equal(await codeOf(daemon.url, { target: USER_DATA, headers }), 40100);
  const overview = { target: "/v1/stats/overview", headers: [bearer(daemon)] };
  assert.equal(await codeOf(daemon.url, overview), 20000);
});

test("no response and no log line has a cookie, a link's token or a key of a sign-in", async (t) => {
  const { daemon } = await startAt(t);
  const { login, key } = daemon.account;
  const token = await createLink(daemon.file, NOW + 1);
  const { secret } = await signedIn(daemon.url, pagePost(LINK, { token }));
  const account = await signInByKey(daemon);
  const unused = await createLink(daemon.file, NOW + 1);
  const requests: RawRequest[] = [
    pagePost(LINK, { token: unused, more: 1 }),
    pagePost(LINK, { token: [unused] }),
    pagePost(`${LINK}?token=${unused}`, {}),
    pagePost(`${SESSION}/${account}`, {}),
    pagePost(SESSION, { login: key, key: login }),
    { ...pagePost(SESSION, {}), body: `{"key":"${key}"` },
    pageGet(daemon, secret, { target: `${USER_DATA}?x=${secret}` }),
    pageGet(daemon, `${secret};${account}`, { others: [cookieLine(daemon.url, account)] }),
  ];
  const bodies: string[] = [];
  for (const request of requests) {
    bodies.push((await exchange(daemon.url, request)).body.toString());
  }
  await daemon.daemon.stop();

  const text = [...daemon.logLines, ...bodies].join("");
  for (const each of [secret, account, token, unused, key]) assert.ok(!text.includes(each));
  assert.deepEqual(complaints(daemon), []);
});
