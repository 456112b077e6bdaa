import assert from "node:assert/strict";
import { test } from "node:test";

import { ask as askRaw } from "../http/answer.ts";
import { cookieLine, FROM_PAGE, LINK, pagePost, signedIn } from "../http/session-requests.ts";
import { startDevProgram, startDev, type DevClient } from "./dev-client.ts";

async function newToken({ ask }: DevClient): Promise<string> {
  return (await ask("POST /dev/sign_in_link")).token ?? assert.fail();
}

test("a session ends, and a sign-in link expires, by the daemon's clock", async (t) => {
  const daemon = await startDevProgram(t);
  const { url } = daemon.ready;
  const { secret } = await signedIn(url, pagePost(LINK, { token: await newToken(daemon) }));
  const look = { target: "/v1/stats/overview", headers: [...FROM_PAGE, cookieLine(url, secret)] };
  const token = await newToken(daemon);
  assert.equal((await askRaw(url, look)).code, 20000);

  await daemon.advance("30m");
  assert.equal((await askRaw(url, pagePost(LINK, { token }))).code, 40100);
  assert.equal((await askRaw(url, look)).code, 40100);
});

test("a client that sent too many requests may send again by the daemon's clock", async (t) => {
  const limits = { requests_per_minute: 3, access_requests_per_hour: 2 };
  const { advance, ask, call } = await startDev(t, { config: { limits } });
  const wish = { email: "ada@example.com" };
  const codes = async () => [
    (await call("GET /v1/tasks")).code,
    (await call("POST /v1/access_requests", wish)).code,
  ];

  for (let sent = 0; sent < 3; sent++) await ask("GET /v1/tasks");
  for (let sent = 0; sent < 2; sent++) await ask("POST /v1/access_requests", wish);
  assert.deepEqual(await codes(), [42900, 42900]);
  await advance("1m");
  assert.deepEqual(await codes(), [20000, 42900]);
  await advance("1h");
  assert.deepEqual(await codes(), [20000, 20000]);
});
