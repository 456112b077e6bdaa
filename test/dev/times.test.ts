import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { ask as askRaw } from "../http/answer.ts";
import { cookieLine, FROM_PAGE, LINK, pagePost, signedIn } from "../http/session-requests.ts";
import { startDev, type DevDaemon } from "./dev-client.ts";

/** A link's token that the daemon makes now. */
async function newToken({ call }: DevDaemon): Promise<string> {
  const { body } = await call("POST /dev/sign_in_link");
  return body.token ?? assert.fail(JSON.stringify(body));
}

test("a session ends, and a link to sign in with expires, when the clock has come there", async (t) => {
  const daemon = await startDev(t);
  const { url } = daemon.ready;
  const { secret } = await signedIn(url, pagePost(LINK, { token: await newToken(daemon) }));
  const look = { target: "/v1/stats/overview", headers: [...FROM_PAGE, cookieLine(url, secret)] };
  const token = await newToken(daemon);
  assert.equal((await askRaw(url, look)).code, 20000);
  const advance = (by: string) => daemon.ask("POST /dev/clock/advance", { by });

  await advance("30m");
  assert.equal((await askRaw(url, pagePost(LINK, { token }))).code, 40100);
  assert.equal((await askRaw(url, look)).code, 40100);
});

test("who has sent too many requests may send again when the clock has come there", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, "[limits]\nrequests_per_minute = 3\naccess_requests_per_hour = 2\n");
  const { ask, call } = await startDev(t, "--config", file);
  const wish = { email: "ada@example.com" };

  for (let sent = 0; sent < 3; sent++) await ask("GET /v1/tasks");
  for (let sent = 0; sent < 2; sent++) await ask("POST /v1/access_requests", wish);
  assert.equal((await call("GET /v1/tasks")).code, 42900);
  assert.equal((await call("POST /v1/access_requests", wish)).code, 42900);

  await ask("POST /dev/clock/advance", { by: "1m" });
  assert.equal((await call("GET /v1/tasks")).code, 20000);
  assert.equal((await call("POST /v1/access_requests", wish)).code, 42900);
  await ask("POST /dev/clock/advance", { by: "1h" });
  assert.equal((await call("POST /v1/access_requests", wish)).code, 20000);
});
