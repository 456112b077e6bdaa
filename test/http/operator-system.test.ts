import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { startTestDaemon, testConfig } from "../helpers/daemon.ts";
import { startProgram } from "../helpers/program.ts";
import { signInOperator } from "./operator-requests.ts";

async function start(t: TestContext, toml = "") {
  const daemon = await startTestDaemon(t, { toml });
  return { daemon, operator: await signInOperator(daemon) };
}

test("the system is shown as it is", async (t) => {
  const { daemon, operator } = await start(t);
  const { fields } = await operator.get("/system");
  const shown = fields as unknown as Record<string, unknown> &
    Record<"database" | "disk" | "memory", Record<string, unknown>>;
  assert.equal(shown["url"], daemon.url);
  assert.equal(shown["pid"], process.pid);
  assert.equal(shown["node"], process.version);
  assert.match(String(shown["sqlite"]), /^3\.\d+\.\d+$/);
  assert.ok(Math.abs(Date.parse(String(shown["started_at"])) - Date.now()) < 60_000);
  assert.ok(Number(shown["uptime_ms"]) >= 0);
  assert.equal(shown.database["path"], daemon.file);
  assert.equal(shown.database["bytes"], statSync(daemon.file).size);
  assert.ok(Number(shown.database["data_bytes"]) > 0);
  assert.ok(Number(shown.database["wal_bytes"]) > 0);
  assert.ok(Number(shown.disk["total_bytes"]) >= Number(shown.disk["free_bytes"]));
  assert.ok(Number(shown.memory["rss_bytes"]) > Number(shown.memory["heap_bytes"]));
  const components = { api: "operational", runners: "operational", webhooks: "operational" };
  // It is not this daemon's alone: see the program's below.
  assert.equal(shown["event_loop"], null);
  assert.deepEqual(shown["status"], { status: "operational", components });
});

const HOSTILE = `
retention_days = 7
[log]
format = "json"
[webhooks]
allow = ["127.0.0.1", "::1"]
[types.resize]
command = ["/bin/\\u0007\\nfalse", "--token=SECRET-ARGUMENT"]
env = { SECRET_NAME = "SECRET-ENV" }
[types.caption]
url = "http://127.0.0.1:9/SECRET-PATH?token=SECRET-QUERY"
headers = { X-Secret-Name = "SECRET-HEADER" }
`;

test("settings are shown with their sources, as text, and none of them is a secret", async (t) => {
  const { daemon, operator } = await start(t, HOSTILE);
  const { response, fields } = await operator.get("/system");
  const text = response.body.toString();
  assert.ok(!text.includes("SECRET"), text);
  const shown = new Map(fields.settings.map(({ key, ...rest }) => [key, rest]));
  const file = `file ${daemon.folder}/postbackd.toml`;
  const given = (value: string) => ({ value, source: file, is_default: false });
  assert.deepEqual(shown.get("retention_days"), given("7"));
  assert.deepEqual(shown.get("webhooks.allow"), given('["127.0.0.1", "::1"]'));
  // The value has a bell and a line break: both are escaped.
  assert.deepEqual(shown.get("types.resize.command"), given('"/bin/\\u0007\\nfalse (1 argument)"'));
  assert.deepEqual(shown.get("types.caption.url"), given('"http://127.0.0.1:9"'));
  assert.equal(shown.get("types.resize.env"), undefined);
  assert.equal(shown.get("types.caption.headers"), undefined);
  const host = { value: '"127.0.0.1"', source: "default", is_default: true };
  assert.deepEqual(shown.get("host"), host);
  assert.deepEqual(shown.get("port"), { value: "0", source: "flag --port", is_default: false });
  assert.deepEqual(shown.get("tls_cert"), { value: null, source: "default", is_default: true });
});

const STARTED = `
[limits]
body = "1MiB"
[webhooks]
allow = ["127.0.0.1"]
[types.resize]
command = ["true"]
timeout = "1m"
[types.caption]
runner = "worker"
timeout = "1m"
`;

test("after a reload the settings in force are shown, and what was changed beside them waits for a restart", async (t) => {
  const { daemon, operator } = await start(t, STARTED);
  const show = async () => {
    const { fields } = await operator.get("/system");
    const values = new Map(fields.settings.map(({ key, value }) => [key, value]));
    return { of: (key: string) => values.get(key), needs: fields.restart_needs };
  };
  assert.deepEqual((await show()).needs, []);
  const next = STARTED.replaceAll("1m", "2m").replace("1MiB", "2MiB").replace("0.1", "0.2");

  daemon.daemon.reload(
    testConfig(daemon.folder, { toml: `${next}[types.other]\nrunner = "echo"` }),
  );

  const shown = await show();
  assert.equal(shown.of("webhooks.allow"), '["127.0.0.2"]');
  assert.equal(shown.of("types.resize.timeout"), '"2m"');
  assert.equal(shown.of("types.caption.timeout"), '"1m"');
  assert.equal(shown.of("types.other"), undefined);
  assert.equal(shown.of("limits.body"), '"1MiB"');
  assert.deepEqual(shown.needs, ["limits.body", "types.caption", "types.other"]);
  const { types } = (await operator.get("/runners")).fields;
  const timeouts = types.map(({ name, timeout_ms: ms }) => `${name} ${ms}`);
  assert.deepEqual(timeouts.toSorted(), ["caption 60000", "resize 120000"]);

  daemon.daemon.reload(testConfig(daemon.folder, { toml: STARTED }));

  const again = await show();
  assert.equal(again.of("types.resize.timeout"), '"1m"');
  assert.deepEqual(again.needs, []);
});

test("the log's last lines are shown, and no query of a webhook's URL is among them, nor any key", async (t) => {
  const { daemon, operator } = await start(t, "[webhooks]\nretry_after = []\n");
  const { key, secret } = daemon.account;
  const created = await operator.post("/accounts", { login: "ada" });
  // Nobody listens there: the attempt fails.
  const postback_url = "http://127.0.0.1:1/hook?token=SECRET-QUERY";
  await daemon.post({ type: "echo", input: "SECRET-INPUT", postback_url });
  await daemon.daemon.idle();
  await operator.post("/accounts/rotate/ada");

  const { response, fields } = await operator.get("/system");
  const text = response.body.toString();
  const failed = fields.log.find(({ message }) => message === "attempt failed");
  assert.match(failed?.facts ?? "", / host=127\.0\.0\.1 /);
  for (const hidden of [
    "SECRET",
    key,
    secret,
    created.fields.key,
    "whsec_",
    "pbd_",
    operator.cookie,
  ]) {
    assert.ok(!text.includes(hidden), hidden);
  }
  for (const line of fields.log) {
    assert.match(line.level, /^(info|warn|error)$/);
    assert.ok(Date.parse(line.time) > 0 && line.message !== "");
  }
});

test("the program shows its own log, whatever its form, from its first line on", async (t) => {
  const env = { POSTBACKD_LOG_FORMAT: "text" };
  const program = startProgram(t, ["start", "--port", "0", "--allow-target", "127.0.0.1"], { env });
  const { url, db: file } = await program.ready;
  const operator = await signInOperator({ url, file });
  const { fields } = await operator.get("/system");
  assert.deepEqual(
    fields.log.map(({ level, message }) => `${level} ${message.replace(/;.*/, "")}`),
    [
      "warn webhooks may go to this target, public or not (webhooks.allow)",
      "info ready",
      "warn no account yet",
    ],
  );
  assert.equal(fields.log[0]?.facts, "target=127.0.0.1");
  const { event_loop: loop } = fields as unknown as { event_loop: Record<string, number> };
  assert.ok(Number(loop["worst_delay_ms"]) >= Number(loop["p99_delay_ms"]));
  assert.equal((await program.stop()).code, 0);
});
