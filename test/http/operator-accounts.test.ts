import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { ask, bearer, type Answer } from "./answer.ts";
import { OPERATOR, operatorPost, signInOperator } from "./operator-requests.ts";
import { cookieLine, FROM_PAGE, pagePost, SESSION, signedIn } from "./session-requests.ts";
import { openHeldTasks } from "./task-requests.ts";

const USER_DATA = "/v1/appendix/user_data";

async function start(t: TestContext, toml = "") {
  const daemon = await startTestDaemon(t, { toml });
  return { daemon, operator: await signInOperator(daemon) };
}

function withKey(url: string, key: string): Promise<Answer> {
  return ask(url, {
    target: USER_DATA,
    headers: [bearer({ account: { login: "", key, secret: "" } })],
  });
}

const READS = [
  "/accounts",
  "/access_requests",
  "/runners",
  "/nodes",
  "/system",
  "/delivery_pauses",
  "/audit",
];

const CHANGES = [
  ["/delivery_pauses", {}],
  ["/delivery_pauses/resume", {}],
  ["/accounts", { login: "mallory" }],
  ["/accounts/disable/tester"],
  ["/accounts/enable/tester"],
  ["/accounts/rotate/tester"],
  ["/accounts/finish/tester"],
  ["/access_requests/approve/01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6", { login: "mallory" }],
  ["/access_requests/deny/01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6"],
] as const;

test("an account gets nothing of the operator's, by its key or its session, and nobody gets it either", async (t) => {
  const { daemon, operator } = await start(t);
  const { url, account } = daemon;
  const { login, key } = account;
  const { secret } = await signedIn(url, pagePost(SESSION, { login, key }));
  const callers = [
    [[bearer(daemon)], 40301],
    [[cookieLine(url, secret)], 40301],
    [[cookieLine(url, secret), "X-Account: tester"], 40301],
    // A key is what counts, whatever cookie comes with it.
    [[bearer(daemon), operator.cookie], 40301],
    [[], 40100],
    [[cookieLine(url, "A".repeat(43))], 40100],
    [["X-Account: tester"], 40100],
  ] as const;
  for (const [credentials, expected] of callers) {
    for (const path of READS) {
      const { code } = await ask(url, {
        target: OPERATOR + path,
        headers: [...FROM_PAGE, ...credentials],
      });
      assert.equal(code, expected, `${path} ${credentials.join()}`);
    }
    for (const [path, body] of CHANGES) {
      const { code } = await ask(url, operatorPost(path, { body, credentials }));
      assert.equal(code, expected, `${path} ${credentials.join()}`);
    }
  }
  const { fields } = await operator.get("/accounts");
  assert.deepEqual(
    fields.accounts.map((each) => [each.login, each.disabled_at, each.is_rotating]),
    [["tester", null, false]],
  );
});

test("what is changed without the page's own header is refused, and changes nothing", async (t) => {
  const { daemon, operator } = await start(t);
  for (const headers of [[operator.cookie], [operator.cookie, "Sec-Fetch-Site: cross-site"]]) {
    const target = `${OPERATOR}/accounts/disable/tester`;
    const { code } = await ask(daemon.url, { method: "POST", target, headers });
    assert.equal(code, 40301);
  }
  assert.equal((await withKey(daemon.url, daemon.account.key)).code, 20000);
});

clusterTest(
  "an account that is made is shown its key and its secret once, and can be used at once",
  async (t) => {
    const { daemon, operator } = await start(t);
    const { response, fields } = await operator.post("/accounts", { login: "ada+1@example.com" });
    assert.equal(headerOf(response, "cache-control"), "no-store");
    assert.deepEqual(Object.keys(fields).slice(2), ["login", "key", "webhook_secret"]);
    const { body, code } = await withKey(daemon.url, fields.key);
    assert.equal(code, 20000);
    const data: Readonly<Record<string, unknown>> = { ...body };
    assert.equal(data["login"], "ada+1@example.com");
    assert.equal(data["webhook_secret"], fields.webhook_secret);
    assert.ok(!daemon.logLines.join("").includes(fields.key));
    assert.ok(!daemon.logLines.join("").includes(fields.webhook_secret));
  },
);

test("a login that is taken or none is 40501, and nothing is made", async (t) => {
  const { operator } = await start(t);
  const taken = await operator.post("/accounts", { login: "tester" });
  assert.equal(taken.code, 40501);
  assert.equal(taken.body.errors?.[0]?.pointer, "/login");
  const hostile = [
    // A URL takes these for steps: nothing could name the account afterwards.
    ".",
    "..",
    "",
    " ",
    "a b",
    "x".repeat(65),
    "a/b",
    "é",
    "a\u0000",
    "<b>",
    null,
    7,
    ["a"],
    {},
  ];
  for (const login of hostile) {
    assert.equal((await operator.post("/accounts", { login })).code, 40501, JSON.stringify(login));
  }
  assert.equal((await operator.post("/accounts", { login: "b", key: "x" })).code, 40501);
  assert.equal((await operator.post("/accounts", "[]")).code, 40503);
  assert.equal((await operator.get("/accounts")).fields.accounts.length, 1);
});

test("a login that is no login is not found, whatever it is, and is not repeated", async (t) => {
  const { daemon, operator } = await start(t);
  const hostile = [
    "nobody",
    "Tester",
    "tester%20",
    "%00",
    "a%2fb",
    "__proto__",
    "constructor",
    "%C3%A9",
  ];
  for (const login of [...hostile, "%27%20OR%201=1", "x".repeat(2000)]) {
    for (const change of ["disable", "enable", "rotate", "finish"]) {
      const { code, response } = await operator.post(`/accounts/${change}/${login}`);
      assert.equal(code, 40400, login);
      assert.deepEqual(JSON.parse(response.body.toString()), {
        status_code: 40400,
        status_message: "Not Found.",
      });
    }
  }
  assert.equal((await withKey(daemon.url, daemon.account.key)).code, 20000);
});

clusterTest(
  "an account that is disabled is refused from its next request on, and its session is over",
  async (t) => {
    const { daemon, operator } = await start(t);
    const { url, account } = daemon;
    const { login, key } = account;
    const { secret } = await signedIn(url, pagePost(SESSION, { login, key }));
    const asSession = async () =>
      (await ask(url, { target: USER_DATA, headers: [...FROM_PAGE, cookieLine(url, secret)] }))
        .code;
    assert.equal(await asSession(), 20000);

    const first = await operator.post("/accounts/disable/tester");
    assert.ok(first.fields.account.disabled_at !== null);
    assert.deepEqual(first.fields.account.held, { queued: 0, running: 0, webhooks: 0 });
    assert.equal((await withKey(url, key)).code, 40102);
    assert.equal(await asSession(), 40100);
    const again = await operator.post("/accounts/disable/tester");
    assert.deepEqual(again.fields.account, first.fields.account);

    const enabled = await operator.post("/accounts/enable/tester");
    assert.deepEqual(enabled.fields.account, {
      ...{ login, disabled_at: null, is_rotating: false, held: null },
    });
    assert.equal((await withKey(url, key)).code, 20000);
  },
);

test("an account that is disabled says what it holds, in the answer and in the list, and goes on when it is enabled", async (t) => {
  const held = await openHeldTasks(t);
  // It stands still: what happens, the operation itself has told.
  const clock = createFakeClock({ now: Date.now() });
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const operator = await signInOperator(daemon);
  const { tasks } = await daemon.post([{ type: "hold" }, { type: "hold" }]);
  const first = await held.next();

  const disabled = await operator.post("/accounts/disable/tester");
  await first.ended;
  await daemon.daemon.idle();
  const { fields } = await operator.get("/accounts");
  const enabled = await operator.post("/accounts/enable/tester");

  assert.deepEqual(disabled.fields.account.held, { queued: 1, running: 1, webhooks: 0 });
  assert.deepEqual(fields.accounts[0]?.held, { queued: 2, running: 0, webhooks: 0 });
  assert.equal(enabled.fields.account.held, null);
  for (let i = 0; i < tasks.length; i++) (await held.next()).socket.end();
  await daemon.daemon.idle();
  for (const { id } of tasks) {
    const { state, runs } = await daemon.get(id);
    assert.deepEqual([state, runs], ["completed", 1]);
  }
});

clusterTest(
  "a secret is rotated once at a time and the rotation finished once; the account sees both secrets meanwhile",
  async (t) => {
    const { daemon, operator } = await start(t);
    const secrets = async () => {
      const { body } = await withKey(daemon.url, daemon.account.key);
      const data: Readonly<Record<string, unknown>> = { ...body };
      return [data["webhook_secret"], data["webhook_secret_next"]];
    };
    const tooEarly = await operator.post("/accounts/finish/tester");
    assert.equal(tooEarly.code, 40000);
    assert.match(tooEarly.body.errors?.[0]?.detail ?? "", /begin a rotation first/);

    const rotating = await operator.post("/accounts/rotate/tester");
    assert.deepEqual(rotating.fields.account, {
      ...{ login: "tester", disabled_at: null, is_rotating: true, held: null },
    });
    const [current, next] = await secrets();
    assert.equal(current, daemon.account.secret);
    assert.match(String(next), /^whsec_/);
    const again = await operator.post("/accounts/rotate/tester");
    assert.equal(again.code, 40000);
    assert.match(again.body.errors?.[0]?.detail ?? "", /rotating already/);
    assert.ok(!rotating.response.body.toString().includes("whsec_"));

    const finished = await operator.post("/accounts/finish/tester");
    assert.equal(finished.fields.account.is_rotating, false);
    assert.deepEqual(await secrets(), [next, null]);
  },
);

clusterTest("accounts are listed by login, page by page, and by a part of it", async (t) => {
  const { operator } = await start(t);
  for (const login of ["a_1", "axb", "A.2", "zoe@x"]) await operator.post("/accounts", { login });
  const logins: string[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${cursor}`;
    const { fields } = await operator.get(`/accounts?limit=2${query}`);
    logins.push(...fields.accounts.map(({ login }) => login));
    cursor = fields.next_cursor;
  } while (cursor !== null);
  assert.deepEqual(logins, ["A.2", "a_1", "axb", "tester", "zoe@x"]);

  const part = async (q: string) =>
    (await operator.get(`/accounts?q=${encodeURIComponent(q)}`)).fields.accounts.map(
      ({ login }) => login,
    );
  assert.deepEqual(await part("test"), ["tester"]);
  // Nothing in it means anything but itself.
  assert.deepEqual(await part("a_"), ["a_1"]);
  for (const nothing of ["%", "*", "'", "\\", "\u0000", "t_ster", "é"]) {
    assert.deepEqual(await part(nothing), [], nothing);
  }
  assert.equal((await part("")).length, 5);
  for (const query of [
    "cursor=x",
    "cursor=dGVzdGVy",
    "limit=0",
    "limit=201",
    `q=${"x".repeat(65)}`,
  ]) {
    assert.equal((await operator.get(`/accounts?${query}`)).code, 40000, query);
  }
});

clusterTest("an account is listed with what it does", async (t) => {
  const { daemon, operator } = await start(t);
  await daemon.post([
    { type: "echo", input: 1 },
    { type: "echo", start_at: farStart() },
  ]);
  await daemon.daemon.idle();
  const { fields } = await operator.get("/accounts");
  const [shown] = fields.accounts;
  assert.equal(shown?.keys_active, 1);
  assert.deepEqual(shown.tasks, {
    ...{ waiting: 0, delayed: 1, running: 0, ready: 1, retrying: 0, undelivered: 0 },
  });
  assert.deepEqual(shown.day, { posted: 2, delivered: 0, given_up: 0, refused: 0, success: null });
});
