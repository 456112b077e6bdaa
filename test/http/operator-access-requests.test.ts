import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { ask, bearer, JSON_TYPE, type Answer } from "./answer.ts";
import { signInOperator, type ShownRequest } from "./operator-requests.ts";

const NO_LIMIT = "[limits]\naccess_requests_per_hour = 0\n";

async function start(t: TestContext) {
  const daemon = await startTestDaemon(t, { toml: NO_LIMIT });
  return { daemon, operator: await signInOperator(daemon) };
}

/** Asks for access as anybody may; answers the request's id. */
async function askFor({ url }: TestDaemon, fields: object): Promise<string> {
  const body = JSON.stringify({ email: "ada@example.com", ...fields });
  const request = { method: "POST", target: "/v1/access_requests", headers: [JSON_TYPE], body };
  const { request_id }: { request_id?: string } & Answer["body"] = (await ask(url, request)).body;
  return request_id ?? "";
}

const idsOf = (requests: readonly ShownRequest[]) => requests.map(({ id }) => id);

clusterTest(
  "requests are listed oldest first with exactly what was sent, those that wait unless all are asked for",
  async (t) => {
    const { daemon, operator } = await start(t);
    const hostile = {
      name: "<img src=x onerror=alert(1)>\u202e",
      company: "'; DROP TABLE accounts; --",
      message: '{"__proto__":1}\n\u200b\ttwo lines',
    };
    const first = await askFor(daemon, hostile);
    const second = await askFor(daemon, {});

    const { fields } = await operator.get("/access_requests");
    assert.deepEqual(idsOf(fields.requests), [first, second]);
    assert.equal(fields.more, false);
    const { created_at, ...shown } = fields.requests[0] ?? { created_at: "" };
    assert.ok(Date.parse(created_at) > 0);
    const undecided = { decision: null, decided_at: null };
    assert.deepEqual(shown, { id: first, email: "ada@example.com", ...hostile, ...undecided });

    assert.equal((await operator.post(`/access_requests/deny/${first}`)).code, 20000);
    assert.deepEqual(idsOf((await operator.get("/access_requests")).fields.requests), [second]);
    const all = (await operator.get("/access_requests?which=all")).fields.requests;
    assert.deepEqual(
      all.map(({ id, decision }) => [id, decision]),
      [
        [first, "denied"],
        [second, null],
      ],
    );
    for (const query of ["which=none", "which=", "which=all&which=all", "limit=1"]) {
      assert.equal((await operator.get(`/access_requests?${query}`)).code, 40000, query);
    }
  },
);

test("a list of long requests is shorter and says that there are more, and they come when those are decided", async (t) => {
  const { daemon, operator } = await start(t);
  // A page holds 65 of them.
  const message = "ш".repeat(4000);
  const ids: string[] = [];
  for (let i = 0; i < 67; i++) ids.push(await askFor(daemon, { message }));

  const first = (await operator.get("/access_requests")).fields;
  assert.deepEqual(idsOf(first.requests), ids.slice(0, 65));
  assert.equal(first.more, true);
  for (const id of ids.slice(0, 2)) await operator.post(`/access_requests/deny/${id}`);
  const second = (await operator.get("/access_requests")).fields;
  assert.deepEqual(idsOf(second.requests), ids.slice(2));
  assert.equal(second.more, false);
});

clusterTest(
  "an approval makes the account and shows its secrets once; a second one makes nothing",
  async (t) => {
    const { daemon, operator } = await start(t);
    const id = await askFor(daemon, {});
    const approve = `/access_requests/approve/${id}`;

    const { response, fields } = await operator.post(approve, { login: "ada" });
    assert.equal(headerOf(response, "cache-control"), "no-store");
    assert.deepEqual(Object.keys(fields).slice(2), ["login", "key", "webhook_secret"]);
    const account = { login: "ada", key: fields.key, secret: "" };
    const target = "/v1/appendix/user_data";
    const { code } = await ask(daemon.url, { target, headers: [bearer({ account })] });
    assert.equal(code, 20000);

    for (const again of [
      await operator.post(approve, { login: "ada2" }),
      await operator.post(`/access_requests/deny/${id}`),
    ]) {
      assert.equal(again.code, 40000);
      assert.match(again.body.errors?.[0]?.detail ?? "", /was decided before/);
    }
    const logins = (await operator.get("/accounts")).fields.accounts.map(({ login }) => login);
    assert.deepEqual(logins, ["ada", "tester"]);
  },
);

clusterTest("of two approvals at the same time one makes an account", async (t) => {
  const { daemon, operator } = await start(t);
  const id = await askFor(daemon, {});
  const approve = `/access_requests/approve/${id}`;
  const answers = await Promise.all(
    ["a", "b", "c", "d"].map((login) => operator.post(approve, { login })),
  );
  assert.equal(
    answers
      .map(({ code }) => String(code))
      .toSorted()
      .join(" "),
    "20000 40000 40000 40000",
  );
  assert.equal((await operator.get("/accounts")).fields.accounts.length, 2);
});

test("a login that is taken or none leaves the request waiting", async (t) => {
  const { daemon, operator } = await start(t);
  const id = await askFor(daemon, {});
  for (const login of ["tester", "a b", "", null]) {
    const { code, body } = await operator.post(`/access_requests/approve/${id}`, { login });
    assert.equal(code, 40501);
    assert.equal(body.errors?.[0]?.pointer, "/login");
  }
  assert.equal((await operator.post(`/access_requests/approve/${id}`)).code, 41500);
  assert.deepEqual(idsOf((await operator.get("/access_requests")).fields.requests), [id]);
});

test("an id of no request is 40400, whatever it is, and makes no account", async (t) => {
  const { operator } = await start(t);
  const hostile = ["01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6", "1", "%00", "'", "a%2fb", "__proto__"];
  for (const id of [...hostile, "x".repeat(3000), "%F0%9F%98%80"]) {
    const approved = await operator.post(`/access_requests/approve/${id}`, { login: "ada" });
    assert.equal(approved.code, 40400, id);
    assert.equal((await operator.post(`/access_requests/deny/${id}`)).code, 40400, id);
  }
  assert.equal((await operator.get("/accounts")).fields.accounts.length, 1);
});
