import assert from "node:assert/strict";
import { test } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { load, loaded, problemOf, problemsOf, type Setup } from "../helpers/config.ts";

const SECRET = newWebhookSecret();

function setup(url: string, rest = ""): Setup {
  return { toml: `${rest}\n[events]\nurl = ${JSON.stringify(url)}\nsecret = "${SECRET}"\n` };
}

test("events.url is judged as a URL of a webhook", () => {
  const refused: readonly (readonly [url: string, reason: RegExp])[] = [
    ["ftp://ops.example.com/", /http:\/\/ or https:\/\//],
    ["https://user:word@ops.example.com/", /user name|credentials|password/i],
    ["http://127.0.0.1:9000/told", /webhooks\.allow/],
    ["http://0x7f.1/told", /webhooks\.allow/],
    ["http://[::ffff:169.254.169.254]/", /webhooks\.allow/],
    ["https://ops.lan/told", /webhooks\.allow/],
    ["https://ops.example.com:0/", /port/],
    ["no URL", /http/],
  ];
  for (const [url, reason] of refused) {
    const problem = problemOf(setup(url));
    assert.match(problem, /^file .*postbackd\.toml, line \d+: events\.url/, url);
    assert.match(problem, reason, url);
  }
});

test("webhooks.allow applies to events.url", () => {
  const allow = 'webhooks.allow = ["127.0.0.1:9000", "ops.lan"]';
  assert.equal(
    loaded(setup("http://127.0.0.1:9000/x", allow)).events.url,
    "http://127.0.0.1:9000/x",
  );
  assert.equal(loaded(setup("https://ops.lan/x", allow)).events.url, "https://ops.lan/x");
  assert.match(problemOf(setup("http://127.0.0.1:9001/x", allow)), /events\.url/);
  // A faulty list is the only problem.
  assert.match(problemOf(setup("https://ops.lan/x", 'webhooks.allow = ["10.0.0.0/99"]')), /allow/);
});

test("no problem repeats the path of events.url or the secret", () => {
  const token = "t0p-5ecret";
  const wrong = [
    setup(`http://10.0.0.1/hooks/${token}?token=${token}`),
    setup(`https://${token}@ops.example.com/`),
    setup(`\u0000${token}`),
    { toml: `[events]\nurl = "https://ops.example.com/${token}"` },
    { toml: `[events]\nurl = "https://ops.example.com/"\nsecret = "${token}"` },
    { toml: `[events]\nurl = "https://ops.example.com/"\nsecret = ["${token}"]` },
  ];
  for (const each of wrong) {
    const problems = problemsOf(each);
    assert.equal(problems.length, 1, problems.join("\n"));
    assert.doesNotMatch(problems.join("\n"), /5ecret/);
  }
});

test("events.url without events.secret is refused with a command that makes one", () => {
  const problem = problemOf({ flags: { "events-url": "https://ops.example.com/" } });

  assert.match(
    problem,
    /^flag --events-url: events\.url needs events\.secret \(POSTBACKD_EVENTS_SECRET\)/,
  );
  assert.match(problem, /openssl rand -base64 32/);
});

test("events.url and events.secret can be in files", () => {
  const env = {
    POSTBACKD_EVENTS_URL_FILE: "/run/secrets/url",
    POSTBACKD_EVENTS_SECRET_FILE: "/run/secrets/secret",
  };
  const url = "https://ops.example.com/told?token=1";
  const files = { "/run/secrets/url": `${url}\n`, "/run/secrets/secret": `${SECRET}\n` };
  assert.deepEqual(loaded({ env, files }).events, { url, secret: SECRET });
});

test("the shown events.url has the host alone, and events.secret is hidden", () => {
  const verdict = load(setup("https://ops.example.com:8443/hooks/t0p-5ecret?token=5ecret"));

  assert.equal(verdict.kind, "config");
  const { values } = verdict.kind === "config" ? verdict.config : assert.fail();
  assert.equal(values.get("events.url"), "https://ops.example.com:8443/…");
  assert.equal(values.get("events.secret"), "…");
});
