import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { ProxyWatch, toProxyPolicy } from "../../src/http/guard/client.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { ask, bearer, codeOf, TASKS_READY } from "./answer.ts";

// The tests come from this machine: they are the proxy.
const TRUSTING = 'trusted_proxies = ["127.0.0.1"]\n';
const PLAIN = "X-Forwarded-Proto: http";

test("a request that a trusted proxy forwards from plain HTTP is 40300, except health checks", async (t) => {
  const daemon = await startTestDaemon(t, { toml: TRUSTING });
  for (const [code, ...lines] of [
    [40300, PLAIN],
    [40300, "X-Forwarded-Proto: https", PLAIN],
    [20000, "X-Forwarded-Proto: HTTPS"],
    [20000],
  ] as const) {
    const headers = [bearer(daemon), ...lines];
    assert.equal(await codeOf(daemon.url, { target: TASKS_READY, headers }), code, lines.join());
  }
  assert.equal((await ask(daemon.url, { headers: [PLAIN] })).response.status, 200);
});

test("refused credentials count for the address that a trusted proxy forwards, of IPv6 for its /64", async (t) => {
  const toml = `${TRUSTING}[limits]\nfailed_authentications_per_minute = 2\n`;
  const daemon = await startTestDaemon(t, { toml });
  for (const [client, code] of [
    ["2001:db8::1", 40100],
    ["2001:db8::1", 40100],
    ["2001:db8::1", 42900],
    ["[2001:db8::ffff]:1234", 42900],
    ["2001:db8:0:1::1", 40100],
    ["203.0.113.7", 40100],
  ] as const) {
    const forwarded = `X-Forwarded-For: 198.51.100.9, ${client}`;
    const headers = ["Authorization: Bearer wrong", forwarded];
    const answer = await ask(daemon.url, { target: TASKS_READY, headers });
    assert.equal(answer.code, code, client);
    if (code !== 42900) continue;
    assert.match(headerOf(answer.response, "retry-after") ?? "", /^([1-9]|[1-5]\d|60)$/);
  }
});

function startWatch() {
  const clock = createFakeClock();
  const watch = new ProxyWatch(clock);
  const given = { trustedProxies: ["10.0.0.1"], servesTls: false, insecureHttp: true };
  const policy = toProxyPolicy(given);
  const forwardedFrom = (remoteAddress: string, thenMs: number): void => {
    const rawHeaders = ["X-Forwarded-For", "203.0.113.7"];
    watch.look({ rawHeaders, socket: { remoteAddress } }, policy);
    clock.advance(thenMs);
  };
  return { clock, watch, forwardedFrom };
}

test("a peer that forwards for a minute is an untrusted proxy until an hour after its last request", () => {
  const { clock, watch, forwardedFrom } = startWatch();
  for (let i = 0; i <= 12; i++) {
    assert.equal(watch.address(), null);
    forwardedFrom("192.0.2.1", 5000);
  }

  assert.equal(watch.address(), "192.0.2.1");
  clock.advance(60 * MINUTE_MS - 5000);
  assert.equal(watch.address(), "192.0.2.1");
  clock.advance(1);
  assert.equal(watch.address(), null);
});

test("peers that forward once, or again after half an hour, are not proxies", () => {
  const { watch, forwardedFrom } = startWatch();
  forwardedFrom("192.0.2.1", MINUTE_MS);
  forwardedFrom("192.0.2.2", 29 * MINUTE_MS);
  forwardedFrom("192.0.2.1", 1000);
  for (let i = 1; i <= 200; i++) forwardedFrom(`198.51.100.${i}`, 1000);

  assert.equal(watch.address(), null);
});

test("one of two alternating proxies is found among other peers", () => {
  const { watch, forwardedFrom } = startWatch();
  for (let i = 0; i < 40; i++) {
    for (const address of ["192.0.2.1", `198.51.100.${i}`, "192.0.2.2", "10.0.0.1"]) {
      forwardedFrom(address, 1000);
    }
  }

  assert.match(watch.address() ?? "", /^192\.0\.2\.[12]$/);
});
