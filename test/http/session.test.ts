import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test, type TestContext } from "node:test";

import { version } from "../../src/assets.ts";
import { newKey } from "../../src/domain/account/key.ts";
import { HOUR_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { exchange, headerLines, headerOf, type RawRequest } from "../helpers/raw-http.ts";
import { sessionName } from "../helpers/session-name.ts";
import { fieldsOf, keyDelete, USER_DATA, userDataOf } from "./account.ts";
import { ask, bearer, complaints, TASKS_READY, type Answer } from "./answer.ts";
import { SOUND, startRing } from "./ring.ts";
import {
  atStore,
  cookieLine,
  createLink,
  createOperatorSession,
  FROM_PAGE,
  LINK,
  pagePost,
  secretOf,
  SESSION,
  signedIn,
  type ShownSession,
} from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

function keySignIn({ account: { login, key } }: TestDaemon): RawRequest {
  return pagePost(SESSION, { login, key });
}

/** A GET with a session, as the page sends it. */
function pageGet(
  { url }: Pick<TestDaemon, "url">,
  secret: string,
  { target = USER_DATA, others = [] }: { target?: string; others?: readonly string[] } = {},
): RawRequest {
  return { target, headers: [...FROM_PAGE, cookieLine(url, secret), ...others] };
}

async function sessionOf(daemon: TestDaemon, secret: string): Promise<ShownSession | null> {
  const answer = await ask(daemon.url, pageGet(daemon, secret, { target: SESSION }));
  assert.equal(answer.code, 20000);
  return fieldsOf<{ session: ShownSession | null }>(answer).session;
}

async function startAt(t: TestContext): Promise<{ daemon: TestDaemon; clock: FakeClock }> {
  const clock = createFakeClock({ now: NOW });
  return { daemon: await startTestDaemon(t, { clock }), clock };
}

async function signInByKey(daemon: TestDaemon): Promise<string> {
  return (await signedIn(daemon.url, keySignIn(daemon))).secret;
}

test("an account signs in with its login and a key, and is told who it is and until when", async (t) => {
  const { daemon } = await startAt(t);

  const { answer, secret } = await signedIn(daemon.url, keySignIn(daemon));

  const expected = {
    ...{ role: "account", login: "tester", expires_at: "2030-01-31T21:00:00.000Z" },
    ...{ idle_seconds: 1800, version, time: "2030-01-31T09:00:00.000Z" },
  };
  assert.deepEqual(fieldsOf<{ session: ShownSession }>(answer).session, expected);
  assert.equal(headerOf(answer.response, "cache-control"), "no-store");
  assert.deepEqual(await sessionOf(daemon, secret), expected);
  const answered = await ask(daemon.url, pageGet(daemon, secret));
  assert.equal(fieldsOf<{ login: string }>(answered).login, "tester");
});

test("the cookie is out of reach of scripts and other sites, and only its hash is kept", async (t) => {
  const { daemon } = await startAt(t);
  const { answer, secret } = await signedIn(daemon.url, keySignIn(daemon));

  const cookie = `${sessionName(daemon.url)}=${secret}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict`;
  assert.deepEqual(headerLines(answer.response, "set-cookie"), [cookie]);
  assert.equal(Buffer.from(secret, "base64url").length, 32);
  await atStore(daemon.file, async (store) => {
    assert.notEqual(await store.findSession(hash("sha256", secret, "hex")), null);
    assert.equal(await store.findSession(secret), null);
  });
  assert.doesNotMatch(answer.response.body.toString(), new RegExp(secret));
});

test("signing in counts as a use of the key, and what its session does as none", async (t) => {
  const { daemon, clock } = await startAt(t);
  const secret = await signInByKey(daemon);
  const lastUsed = async (): Promise<readonly (string | null)[]> => {
    const answer = await ask(daemon.url, pageGet(daemon, secret));
    const { keys } = fieldsOf<{ keys: { last_used_at: string | null }[] }>(answer);
    return keys.map((key) => key.last_used_at);
  };

  assert.deepEqual(await lastUsed(), ["2030-01-31T09:00:00.000Z"]);
  clock.advance(MINUTE_MS);
  assert.deepEqual(await lastUsed(), ["2030-01-31T09:00:00.000Z"]);
});

test("the operator signs in with a link, for all accounts or, by X-Account, for one of them", async (t) => {
  const { daemon } = await startAt(t);
  const other = await createTestAccount(daemon.file, "bob");
  const token = await createLink(daemon.file, NOW + 1);

  const { answer, secret } = await signedIn(daemon.url, pagePost(LINK, { token }));

  const { session } = fieldsOf<{ session: ShownSession }>(answer);
  assert.deepEqual([session.role, session.login], ["operator", null]);
  const call = (...others: string[]): Promise<Answer> =>
    ask(daemon.url, pageGet(daemon, secret, { others }));
  const unnamed = await call();
  assert.equal(unnamed.code, 40301);
  assert.match(unnamed.body.errors?.[0]?.detail ?? "", /X-Account: LOGIN/);
  for (const login of ["tester", other.login]) {
    assert.equal(fieldsOf<{ login: string }>(await call(`X-Account: ${login}`)).login, login);
  }
  for (const login of ["nobody", "", "Tester", "tester ,bob", "%74ester", "x".repeat(5000)]) {
    assert.equal((await call(`X-Account: ${login}`)).code, 40400, login);
  }
  assert.equal((await call("X-Account: tester", "X-Account: bob")).code, 40000);
});

test("the operator acts for an account that is disabled too", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await createOperatorSession(daemon.file, NOW);
  await atStore(daemon.file, (store) =>
    store.setAccountDisabled({ login: "tester", disabledAt: NOW }),
  );

  const answer = await ask(daemon.url, pageGet(daemon, secret, { others: ["X-Account: tester"] }));

  assert.equal(answer.code, 20000);
});

test("X-Account means nothing from anybody but the operator", async (t) => {
  const { daemon } = await startAt(t);
  await createTestAccount(daemon.file, "bob");
  const secret = await signInByKey(daemon);

  const others = ["X-Account: bob"];
  const bySession = await ask(daemon.url, pageGet(daemon, secret, { others }));
  const byKey = await ask(daemon.url, { target: USER_DATA, headers: [bearer(daemon), ...others] });

  for (const answer of [bySession, byKey]) {
    assert.equal(fieldsOf<{ login: string }>(answer).login, "tester");
  }
});

test("what is the operator's is 40301 to accounts, by key and by session, and 40100 to nobody", async (t) => {
  const { daemon } = await startAt(t);
  const target = "/v1/operator/system";
  const account = await signInByKey(daemon);
  const operator = await createOperatorSession(daemon.file, NOW);
  const codeOf = async (request: RawRequest): Promise<number | null> =>
    (await ask(daemon.url, request)).code;

  assert.equal(await codeOf(pageGet(daemon, operator, { target })), 20000);
  assert.equal(await codeOf(pageGet(daemon, account, { target })), 40301);
  assert.equal(await codeOf({ target, headers: [bearer(daemon)] }), 40301);
  assert.equal(await codeOf({ target }), 40100);
  assert.equal(await codeOf(pageGet(daemon, "x".repeat(43), { target })), 40100);
  // The key is what counts, whatever cookie comes with it.
  const headers = [bearer(daemon), ...FROM_PAGE, cookieLine(daemon.url, operator)];
  assert.equal(await codeOf({ target, headers }), 40301);
});

test("wrong credentials sign nobody in, by the codes of the contract, and open no dialog", async (t) => {
  const { daemon } = await startAt(t);
  const { login, key } = daemon.account;
  const other = await createTestAccount(daemon.file, "bob");
  const refused: readonly (readonly [unknown, number])[] = [
    [{ login, key: newKey().key }, 40100],
    [{ login, key: "nonsense" }, 40100],
    [{ login, key: other.key }, 40100],
    [{ login: "nobody", key }, 40100],
    [{ login: "Tester", key }, 40100],
    [{ login, key: "" }, 40100],
    [{ login }, 40501],
    [{ login, key: 5 }, 40501],
    [{ login, key: "x".repeat(201) }, 40501],
    [{ login, key, remember: true }, 40501],
    [[], 40503],
  ];
  for (const [body, code] of refused) {
    const answer = await ask(daemon.url, pagePost(SESSION, body));
    assert.equal(answer.code, code, JSON.stringify(body));
    assert.deepEqual(headerLines(answer.response, "set-cookie"), []);
    assert.equal(headerOf(answer.response, "cache-control"), "no-store");
    const challenges = headerLines(answer.response, "www-authenticate");
    assert.deepEqual(challenges, code === 40100 ? ['Bearer realm="postbackd"'] : []);
    assert.ok(!answer.response.body.toString().includes(key));
  }
  await atStore(daemon.file, (store) => store.setAccountDisabled({ login, disabledAt: NOW }));
  assert.equal((await ask(daemon.url, keySignIn(daemon))).code, 40102);
  await atStore(daemon.file, async (store) => {
    for (const { keyId } of (await store.listKeys(login)) ?? []) {
      await store.revokeKey({ keyId, accountId: null, revokedAt: NOW });
    }
  });
  assert.equal((await ask(daemon.url, keySignIn(daemon))).code, 40101);
});

test("a link works once, before it expires, and of many at the same time for one alone", async (t) => {
  const { daemon, clock } = await startAt(t);
  const token = await createLink(daemon.file, NOW + MINUTE_MS);
  const use = (text: unknown): Promise<Answer> => ask(daemon.url, pagePost(LINK, { token: text }));

  const answers = await Promise.all(Array.from({ length: 8 }, () => use(token)));

  const codes = answers.map(({ code }) => String(code));
  assert.deepEqual(codes.toSorted(), ["20000", ...Array(7).fill("40100")]);
  assert.equal(answers.filter((answer) => secretOf(answer) !== null).length, 1);
  const late = await createLink(daemon.file, NOW + MINUTE_MS);
  clock.advance(MINUTE_MS);
  const bodies = await Promise.all(
    [token, late, `${late}x`, late.slice(9), "", "pbd_link_", `pbd_link_${"x".repeat(43)}`].map(
      async (text) => {
        const answer = await use(text);
        assert.equal(answer.code, 40100, text);
        return answer.response.body.toString();
      },
    ),
  );
  assert.equal(new Set(bodies).size, 1, "one answer, whatever is wrong with it");
});

test("attempts to sign in are counted as refused credentials are, and the right key passes all the while", async (t) => {
  const toml = "[limits]\nfailed_authentications_per_minute = 3\n";
  const daemon = await startTestDaemon(t, { toml });
  const guess = (): RawRequest => pagePost(SESSION, { login: "tester", key: newKey().key });
  const codes: (number | null)[] = [];
  for (const request of [guess(), pagePost(LINK, { token: "x" }), guess(), guess(), guess()]) {
    const answer = await ask(daemon.url, request);
    codes.push(answer.code);
    const wait = headerOf(answer.response, "retry-after");
    assert.equal(wait !== null, answer.code === 42900);
  }

  assert.deepEqual(codes, [40100, 40100, 40100, 42900, 42900]);
  // One count with the refused keys of requests.
  const refused = await ask(daemon.url, { target: TASKS_READY });
  assert.equal(refused.code, 42900);
  assert.equal((await ask(daemon.url, keySignIn(daemon))).code, 20000);
});

clusterTest(
  "a key that is revoked, or whose account is disabled, during its sign-in is 40101 or 40102",
  async (t) => {
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
          async createSession() {
            changes = change;
            return "refused";
          },
        },
      });
      const request = pagePost(SESSION, { login: "tester", key: newKey().key });
      assert.equal((await ask(ring.url, request)).code, code);
    }
  },
);

test("an account signs in a hundred times an hour, and others all the while", async (t) => {
  const { daemon, clock } = await startAt(t);
  const other = await createTestAccount(daemon.file, "other");
  for (let i = 0; i < 100; i++) await signInByKey(daemon);

  const late = await ask(daemon.url, keySignIn(daemon));
  assert.equal(late.code, 42900);
  assert.equal(headerOf(late.response, "retry-after"), "3600");
  assert.equal(
    late.response.headers.some(([name]) => name.toLowerCase() === "set-cookie"),
    false,
  );
  await signedIn(daemon.url, pagePost(SESSION, { login: other.login, key: other.key }));
  assert.equal(
    (await ask(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] })).code,
    20000,
  );
  clock.advance(HOUR_MS);
  await signInByKey(daemon);
});

test("a session that nobody uses for half an hour is over, and use keeps it", async (t) => {
  const { daemon, clock } = await startAt(t);
  const secret = await signInByKey(daemon);
  for (let used = 0; used < 2; used++) {
    clock.advance(30 * MINUTE_MS - 1);
    assert.equal((await ask(daemon.url, pageGet(daemon, secret))).code, 20000);
  }
  clock.advance(30 * MINUTE_MS);

  const over = await ask(daemon.url, pageGet(daemon, secret));

  assert.equal(over.code, 40100);
  assert.equal(await sessionOf(daemon, secret), null);
});

test("what the page asks by itself keeps no session alive, and is served", async (t) => {
  const { daemon, clock } = await startAt(t);
  const secret = await signInByKey(daemon);
  const others = ["X-Refresh: automatic"];
  for (let minute = 1; minute < 30; minute++) {
    clock.advance(MINUTE_MS);
    for (const target of [USER_DATA, SESSION]) {
      assert.equal(
        (await ask(daemon.url, pageGet(daemon, secret, { target, others }))).code,
        20000,
      );
    }
  }
  clock.advance(MINUTE_MS);

  assert.equal((await ask(daemon.url, pageGet(daemon, secret))).code, 40100);
});

test("after twelve hours a session is over, however much it is used", async (t) => {
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
  assert.equal((await ask(daemon.url, pageGet(daemon, secret, { others }))).code, 40100);
});

test("a session and a link that were made while the clock was far ahead are over when it is set right", async (t) => {
  const { daemon } = await startAt(t);
  const ahead = NOW + 365 * 24 * HOUR_MS;
  const far = await createOperatorSession(daemon.file, ahead);
  const near = await createOperatorSession(daemon.file, NOW + MINUTE_MS);
  assert.equal(await sessionOf(daemon, far), null);
  assert.equal((await sessionOf(daemon, near))?.role, "operator");

  const token = await createLink(daemon.file, ahead);
  assert.equal((await ask(daemon.url, pagePost(LINK, { token }))).code, 40100);
});

test("when a session was last used is kept across a restart", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const first = await startTestDaemon(t, { clock });
  const { folder, account } = first;
  const secret = await signInByKey(first);
  clock.advance(29 * MINUTE_MS);
  await ask(first.url, pageGet(first, secret));
  await first.daemon.stop();
  clock.advance(29 * MINUTE_MS);

  const { daemon: _, ...second } = await startTestDaemon(t, { clock, folder, account });

  assert.equal((await ask(second.url, pageGet(second, secret))).code, 20000);
});

test("when it was last used is written once a minute, and never more often", async (t) => {
  const { daemon, clock } = await startAt(t);
  const secret = await signInByKey(daemon);
  clock.advance(1000);
  await ask(daemon.url, pageGet(daemon, secret));
  const lastSeen = () =>
    atStore(daemon.file, async (store) => {
      const found = await store.findSession(hash("sha256", secret, "hex"));
      return found?.lastSeenAt;
    });

  assert.equal(await lastSeen(), NOW);
  clock.advance(MINUTE_MS);
  // The write is on its way; what is asked after it is answered after it.
  await ask(daemon.url, keySignIn(daemon));
  assert.equal(await lastSeen(), NOW + 1000);
});

test("signing out ends the session and takes the cookie away; again is the same", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await signInByKey(daemon);
  const headers = [...FROM_PAGE, cookieLine(daemon.url, secret)];
  for (const lines of [headers, headers, FROM_PAGE]) {
    const answer = await ask(daemon.url, { method: "DELETE", target: SESSION, headers: lines });

    assert.deepEqual(fieldsOf<{ session: null }>(answer).session, null);
    const taken = `${sessionName(daemon.url)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict`;
    assert.deepEqual(headerLines(answer.response, "set-cookie"), [taken]);
  }
  assert.equal((await ask(daemon.url, pageGet(daemon, secret))).code, 40100);
});

test("a session ends on the next request after its key was revoked by another process", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await signInByKey(daemon);
  const operator = await createOperatorSession(daemon.file, NOW);
  const [key] = (await userDataOf(daemon)).keys;
  await atStore(daemon.file, (store) =>
    store.revokeKey({ keyId: key?.key_id ?? "", accountId: null, revokedAt: NOW }),
  );

  const over = await ask(daemon.url, pageGet(daemon, secret));

  assert.equal(over.code, 40100);
  assert.match(over.body.errors?.[0]?.detail ?? "", /sign in again/);
  assert.equal(secretOf(over), null);
  assert.match(headerOf(over.response, "set-cookie") ?? "", /=; Path=\/; Max-Age=0;/);
  assert.deepEqual(headerLines(over.response, "www-authenticate"), ['Bearer realm="postbackd"']);
  assert.equal(await sessionOf(daemon, secret), null);
  assert.notEqual(await sessionOf(daemon, operator), null);
});

test("a session ends with its account at once, and stays ended when that is enabled again", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await signInByKey(daemon);
  const { login } = daemon.account;
  const change = (disabledAt: number | null) =>
    atStore(daemon.file, (store) => store.setAccountDisabled({ login, disabledAt }));

  await change(NOW);
  assert.equal((await ask(daemon.url, pageGet(daemon, secret))).code, 40100);
  await change(null);
  assert.equal((await ask(daemon.url, pageGet(daemon, secret))).code, 40100);
});

test("who revokes the key of its own session is signed out by that", async (t) => {
  const { daemon } = await startAt(t);
  const secret = await signInByKey(daemon);
  const [key] = (await userDataOf(daemon)).keys;
  const { target = "" } = keyDelete(daemon, key?.key_id ?? "");
  const revoked = await ask(daemon.url, {
    ...pageGet(daemon, secret, { target }),
    method: "DELETE",
  });

  assert.equal(revoked.code, 20000);
  assert.equal((await ask(daemon.url, pageGet(daemon, secret))).code, 40100);
});

test("of one key twenty sessions last at once; one more ends the oldest", async (t) => {
  const { daemon } = await startAt(t);
  const secrets: string[] = [];
  for (let i = 0; i < 21; i++) secrets.push(await signInByKey(daemon));

  const alive = await Promise.all(secrets.map((secret) => sessionOf(daemon, secret)));

  assert.deepEqual(
    alive.map((session) => session !== null),
    [false, ...Array(20).fill(true)],
  );
});

test("a session's requests count for its account's limit, and the operator's for none", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "[limits]\nrequests_per_minute = 2\n" });
  const secret = await signInByKey(daemon);
  const operator = await createOperatorSession(daemon.file);
  const codes: (number | null)[] = [];
  for (let i = 0; i < 3; i++) codes.push((await ask(daemon.url, pageGet(daemon, secret))).code);

  assert.deepEqual(codes, [20000, 20000, 42900]);
  const limited = await ask(daemon.url, { target: USER_DATA, headers: [bearer(daemon)] });
  assert.equal(limited.code, 42900);
  const others = ["X-Account: tester"];
  const answer = await ask(daemon.url, pageGet(daemon, operator, { others }));
  assert.equal(answer.code, 20000);
  assert.deepEqual(headerLines(answer.response, "ratelimit"), []);
});

test("a refusal names no Basic to the page's own code, and both schemes to everybody else", async (t) => {
  const { daemon } = await startAt(t);
  const challengesOf = async (...headers: string[]): Promise<readonly string[]> =>
    headerLines(
      (await ask(daemon.url, { target: USER_DATA, headers })).response,
      "www-authenticate",
    );
  const page = "X-Requested-With: postbackd";

  assert.deepEqual(await challengesOf(page), ['Bearer realm="postbackd"']);
  assert.deepEqual(await challengesOf(page, "Authorization: Bearer x"), [
    'Bearer realm="postbackd", error="invalid_token"',
  ]);
  for (const others of [[], ["X-Requested-With: XMLHttpRequest"]]) {
    const [basic, bearerLine] = await challengesOf(...others);
    assert.match(basic ?? "", /^Basic /);
    assert.match(bearerLine ?? "", /^Bearer /);
  }
});

test("workers' operations and public ones look at no cookie", async (t) => {
  const { daemon } = await startAt(t);
  const operator = await createOperatorSession(daemon.file, NOW);
  const headers = [
    cookieLine(daemon.url, operator),
    "Sec-Fetch-Site: cross-site",
    "Host: evil.test",
  ];
  const status = { target: "/v1/appendix/status", headers, host: false } as const;
  const claim = { ...status, method: "POST", target: "/v1/worker/claim" };

  assert.equal((await ask(daemon.url, status)).code, 20000);
  assert.equal((await ask(daemon.url, claim)).code, 40100);
  assert.equal((await ask(daemon.url, { headers, host: false })).response.status, 200);
});

test("without the dashboard there are no sessions, no pages and nothing of the operator's", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "dashboard = false\n" });
  const operator = await createOperatorSession(daemon.file);
  const lines = [...FROM_PAGE, cookieLine(daemon.url, operator), "Accept: text/html"];
  for (const target of [
    SESSION,
    "/v1/operator/system",
    "/v1/events",
    "/dashboard/",
    "/dashboard",
  ]) {
    const answer = await ask(daemon.url, { target, headers: lines });
    assert.equal(answer.code, 40400, target);
  }
  for (const request of [keySignIn(daemon), pagePost(LINK, { token: "x" })]) {
    assert.equal((await ask(daemon.url, request)).code, 40400);
  }
  assert.equal((await ask(daemon.url, { target: USER_DATA, headers: lines })).code, 40100);
  const overview = { target: "/v1/stats/overview", headers: [bearer(daemon)] };
  assert.equal((await ask(daemon.url, overview)).code, 20000);
});

test("no cookie, token or key of a sign-in is ever logged or answered", async (t) => {
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

  for (const text of [daemon.logLines.join(""), bodies.join("")]) {
    for (const each of [secret, account, token, unused, key]) assert.ok(!text.includes(each));
  }
  assert.deepEqual(complaints(daemon), []);
});
