import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { ProxyWatch, toProxyPolicy } from "../../src/http/guard/client.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const POLICY = toProxyPolicy({
  trustedProxies: ["10.0.0.1"],
  servesTls: false,
  insecureHttp: true,
});

function startWatch() {
  const clock = createFakeClock();
  const watch = new ProxyWatch(clock);
  const forwardedFrom = (remoteAddress: string): void => {
    const rawHeaders = ["X-Forwarded-For", "203.0.113.7"];
    watch.look({ rawHeaders, socket: { remoteAddress } }, POLICY);
  };
  return { clock, watch, forwardedFrom };
}

test("a peer is a proxy when its headers come for a minute, and is shown for an hour after the last", () => {
  const { clock, watch, forwardedFrom } = startWatch();
  for (let i = 0; i <= 12; i++) {
    assert.equal(watch.address(), null);
    forwardedFrom("192.0.2.1");
    clock.advance(5000);
  }

  assert.equal(watch.address(), "192.0.2.1");
  clock.advance(60 * MINUTE_MS - 5000);
  assert.equal(watch.address(), "192.0.2.1");
  clock.advance(1);
  assert.equal(watch.address(), null);
});

test("strangers who try such a header once, or again half an hour later, are no proxy", () => {
  const { clock, watch, forwardedFrom } = startWatch();
  forwardedFrom("192.0.2.1");
  clock.advance(MINUTE_MS);
  forwardedFrom("192.0.2.2");
  clock.advance(29 * MINUTE_MS);
  forwardedFrom("192.0.2.1");
  clock.advance(1000);
  for (let i = 1; i <= 200; i++) {
    forwardedFrom(`198.51.100.${i}`);
    clock.advance(1000);
  }

  assert.equal(watch.address(), null);
});

test("of two proxies that take turns, and behind which strangers come, one is found", () => {
  const { clock, watch, forwardedFrom } = startWatch();
  for (let i = 0; i < 40; i++) {
    for (const address of ["192.0.2.1", `198.51.100.${i}`, "192.0.2.2", "10.0.0.1"]) {
      forwardedFrom(address);
      clock.advance(1000);
    }
  }

  assert.match(watch.address() ?? "", /^192\.0\.2\.[12]$/);
});
