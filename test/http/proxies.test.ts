import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { ask, bearer, TASKS_READY } from "./answer.ts";

// The tests themselves come from this machine: trusted, they are the proxy.
const TRUSTING = 'trusted_proxies = ["127.0.0.1"]\n';
const PLAIN = "X-Forwarded-Proto: http";

test("answers 40300 to a client of whom a trusted proxy says that it used plain HTTP", async (t) => {
  const daemon = await startTestDaemon(t, { toml: TRUSTING });
  const call = (...lines: string[]) =>
    ask(daemon.url, { target: TASKS_READY, headers: [bearer(daemon), ...lines] });

  assert.equal((await call(PLAIN)).code, 40300);
  assert.equal((await call("X-Forwarded-Proto: https", PLAIN)).code, 40300);
  assert.equal((await call("X-Forwarded-Proto: HTTPS")).code, 20000);
  assert.equal((await call()).code, 20000);
});

test("believes nobody else's X-Forwarded-Proto", async (t) => {
  const daemon = await startTestDaemon(t, { toml: 'trusted_proxies = ["192.0.2.1"]\n' });

  const answer = await ask(daemon.url, { target: TASKS_READY, headers: [bearer(daemon), PLAIN] });

  assert.equal(answer.code, 20000);
});

test("answers health checks over plain HTTP", async (t) => {
  const daemon = await startTestDaemon(t, { toml: TRUSTING });

  assert.equal((await ask(daemon.url, { headers: [PLAIN] })).response.status, 200);
});

test("counts refused credentials by the address that a trusted proxy names", async (t) => {
  const toml = `${TRUSTING}[limits]\nfailed_authentications_per_minute = 2\n`;
  const daemon = await startTestDaemon(t, { toml });
  const guess = (client: string) =>
    ask(daemon.url, {
      target: TASKS_READY,
      headers: ["Authorization: Bearer wrong", `X-Forwarded-For: 198.51.100.9, ${client}`],
    });

  const codes = [];
  for (let i = 0; i < 3; i++) codes.push((await guess("2001:db8::1")).code);

  assert.deepEqual(codes, [40100, 40100, 42900]);
  const refused = await guess("[2001:db8::ffff]:1234");
  assert.equal(refused.code, 42900);
  assert.match(headerOf(refused.response, "retry-after") ?? "", /^([1-9]|[1-5]\d|60)$/);
  assert.equal((await guess("2001:db8:0:1::1")).code, 40100);
  assert.equal((await guess("203.0.113.7")).code, 40100);
});

test("does not let a client choose the address that it is counted by", async (t) => {
  const toml = `trusted_proxies = ["192.0.2.1"]\n[limits]\nfailed_authentications_per_minute = 2\n`;
  const daemon = await startTestDaemon(t, { toml });

  const codes = [];
  for (let i = 0; i < 3; i++) {
    const headers = ["Authorization: Bearer wrong", `X-Forwarded-For: 203.0.113.${i}`];
    codes.push((await ask(daemon.url, { target: TASKS_READY, headers })).code);
  }

  assert.deepEqual(codes, [40100, 40100, 42900]);
});
