import assert from "node:assert/strict";
import { test } from "node:test";

import { newKey } from "../../src/domain/account/key.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { ask } from "./answer.ts";
import {
  atStore,
  cookieLine,
  createOperatorSession,
  FROM_PAGE,
  pagePost,
  SESSION,
  signedIn,
} from "./session-requests.ts";

async function entriesOf({ file }: TestDaemon) {
  const query = { since: null, action: null, limit: 99, before: null };
  return atStore(file, (store) => store.listAudit(query));
}

clusterTest(
  "what accounts and the operator do by requests is in the audit, with who it was and from where",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const { login, key } = daemon.account;
    const headers = { "content-type": "application/json" };
    const made = await daemon.call("/v1/appendix/keys", { method: "POST", headers, body: "{}" });
    const { key: added } = (await made.json()) as { key: { key_id: string; key: string } };
    await daemon.call(`/v1/appendix/keys/${added.key_id}`, { method: "DELETE" });
    await signedIn(daemon.url, pagePost(SESSION, { login, key }));
    const secret = await createOperatorSession(daemon.file);
    const target = `/v1/operator/accounts/disable/${login}`;
    const operator = { method: "POST", headers: [...FROM_PAGE, cookieLine(daemon.url, secret)] };
    assert.equal((await ask(daemon.url, { ...operator, target })).code, 20000);

    const entries = await entriesOf(daemon);

    const from = "127.0.0.1";
    assert.deepEqual(
      entries.map(({ actor, action, subject }) => [actor.kind, actor.address, action, subject]),
      [
        ["operator", from, "account.disabled", login],
        ["account", from, "session.opened", login],
        ["account", from, "key.revoked", added.key_id],
        ["account", from, "key.created", login],
      ],
    );
    assert.ok(entries.slice(1).every(({ actor }) => actor.name?.startsWith(`${login} key_`)));
    const text = JSON.stringify(entries);
    for (const each of [key, added.key, secret]) assert.ok(!text.includes(each));
  },
);

test("refused sign-ins are in the audit, a number of them, and nothing of what was given but a login", async (t) => {
  const daemon = await startTestDaemon(t, {
    toml: "[limits]\nfailed_authentications_per_minute = 100\n",
  });
  const { login, key } = daemon.account;
  await ask(daemon.url, pagePost(SESSION, { login, key: newKey().key }));
  for (let i = 0; i < 80; i++) await ask(daemon.url, pagePost(SESSION, { login: key, key }));

  const entries = await entriesOf(daemon);

  assert.equal(entries.at(-1)?.subject, login);
  assert.ok(entries.length > 5 && entries.length <= 60, `${entries.length}`);
  assert.ok(
    entries.every(({ actor, action }) => actor.kind === "nobody" && action === "session.refused"),
  );
  assert.ok(entries.slice(0, -1).every(({ subject }) => subject === null));
  assert.ok(!JSON.stringify(entries).includes(key));
});
