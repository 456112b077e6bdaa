import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";

import { guardNetwork, toBrowserPolicy } from "../../src/http/guard/browser.ts";
import {
  CONTENT_TYPES,
  Counter,
  Histogram,
  exposition,
  formatOf,
  gauge,
} from "../../src/http/metrics/metrics.ts";
import {
  HISTOGRAM_TYPES_MAX,
  SERIES,
  TYPES_MAX,
  type SeriesName,
} from "../../src/http/metrics/series.ts";
import { Meter } from "../../src/ops/meter.ts";
import { NODE_ROLES } from "../../src/store/cluster.ts";
import { startTestDaemon, testConfig, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { exchange, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { bearer } from "./answer.ts";
import { cookieLine, createOperatorSession, FROM_PAGE } from "./session-requests.ts";

const OWN = '[metrics]\nlisten = "127.0.0.1:0"\n';
const PRINT = '[types.print]\nrunner = "worker"\n';

async function scrape({ daemon }: TestDaemon, accept = "*/*"): Promise<Response> {
  const url = daemon.metricsUrl ?? assert.fail("metrics are served nowhere");
  return fetch(url, { headers: { accept } });
}

/** The lines of a scrape that are values, by their name and labels. */
async function values(daemon: TestDaemon): Promise<ReadonlyMap<string, number>> {
  const text = await (await scrape(daemon)).text();
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(" ");
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

test("metrics are Prometheus text unless Accept prefers a known version of OpenMetrics", () => {
  const asked: readonly (readonly [string, string])[] = [
    ["", "prometheus"],
    ["*/*", "prometheus"],
    ["text/plain;version=0.0.4", "prometheus"],
    ["application/openmetrics-text", "openmetrics"],
    ["application/openmetrics-text; version=1.0.0; charset=utf-8, text/plain;q=0.5", "openmetrics"],
    ["application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4", "prometheus"],
    ["application/openmetrics-text;q=0", "prometheus"],
    ["application/openmetrics-text;version=2.0.0", "prometheus"],
    [
      "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.1",
      "openmetrics",
    ],
  ];
  for (const [accept, format] of asked) assert.equal(formatOf([accept]), format, accept);
});

test("both formats write counters, gauges and histograms", () => {
  const counter = new Counter("postbackd_tasks_posted_total");
  counter.add(['a"b\\c\nd'], 2);
  counter.add(['a"b\\c\nd']);
  const histogram = new Histogram("postbackd_delivery_lag_seconds");
  histogram.observe([], 0.25);
  histogram.observe([], 1e9);
  const families = [counter.family, gauge("postbackd_ready", 1), histogram.family];

  const plain = exposition(families, "prometheus").split("\n");
  const open = exposition(families, "openmetrics").split("\n");

  const sample = 'postbackd_tasks_posted_total{type="a\\"b\\\\c\\nd"} 3';
  assert.equal(plain[1], "# TYPE postbackd_tasks_posted_total counter");
  assert.equal(open[1], "# TYPE postbackd_tasks_posted counter");
  const lag = "postbackd_delivery_lag_seconds";
  for (const line of [
    ...[sample, "postbackd_ready 1", `${lag}_bucket{le="0.05"} 0`, `${lag}_bucket{le="0.25"} 1`],
    ...[`${lag}_bucket{le="+Inf"} 2`, `${lag}_sum 1000000000.25`, `${lag}_count 2`],
  ]) {
    assert.ok(plain.includes(line) && open.includes(line), line);
  }
  assert.ok(plain.includes(`${lag}_bucket{le="60"} 1`));
  assert.ok(open.includes(`${lag}_bucket{le="60.0"} 1`));
  assert.deepEqual(open.slice(-2), ["# EOF", ""]);
});

test("metrics.listen serves /metrics alone, without credentials, in the format of Accept", async (t) => {
  const daemon = await startTestDaemon(t, { toml: OWN });
  const url = daemon.daemon.metricsUrl ?? assert.fail();

  const plain = await scrape(daemon);
  const open = await scrape(daemon, "application/openmetrics-text; version=1.0.0");

  assert.equal(plain.headers.get("content-type"), CONTENT_TYPES.prometheus);
  assert.match(await plain.text(), /^postbackd_ready 1$/m);
  assert.equal(open.headers.get("content-type"), CONTENT_TYPES.openmetrics);
  assert.match(await open.text(), /\n# EOF\n$/);
  const head = await fetch(url, { method: "HEAD" });
  assert.deepEqual([head.status, await head.text()], [200, ""]);
  assert.equal((await fetch(url, { method: "POST" })).status, 405);
  assert.equal((await fetch(new URL("/v1/user_data", url))).status, 404);
});

test("metrics.listen renders one response at a time for a client that pipelines and does not read", async (t) => {
  const daemon = await startTestDaemon(t, { toml: OWN });
  const { hostname: host, port } = new URL(daemon.daemon.metricsUrl ?? assert.fail());
  const client = connect({ host, port: Number(port) });
  t.after(() => client.destroy());
  await once(client, "connect");
  client.pause();
  const responses: ServerResponse[] = [];
  const note = (message: unknown): void => {
    const { request, response } = message as Record<"request" | "response", ServerResponse>;
    if (request.socket?.remotePort === client.localPort) responses.push(response);
  };
  const requests = channel("http.server.request.start");
  requests.subscribe(note);
  t.after(() => requests.unsubscribe(note));
  const unsent = (): number =>
    responses.filter((each) => each.writableEnded && !each.writableFinished).length;

  client.write(Buffer.concat(Array.from({ length: 1000 }, () => toBytes({ target: "/metrics" }))));

  do assert.equal((await scrape(daemon)).status, 200);
  while (unsent() === 0);
  for (let i = 0; i < 10; i++) {
    assert.equal((await scrape(daemon)).status, 200);
    assert.equal(unsent(), 1);
  }
});

test("metrics.listen refuses web pages and foreign names, and serves beside 64 silent connections", async (t) => {
  const daemon = await startTestDaemon(t, { toml: OWN });
  const url = daemon.daemon.metricsUrl ?? assert.fail();
  for (let i = 0; i < 64; i++) await openRaw(t, url);
  for (const [status, ...headers] of [
    [200, "Host: localhost:9464"],
    [200, "Host: [::1]:9464"],
    [403, "Host: foreign.example"],
    [400],
    [400, "Host: localhost", "Host: localhost"],
    [403, "Host: localhost", "Origin: http://foreign.example"],
    [403, "Host: localhost", "Sec-Fetch-Site: cross-site"],
  ] as const) {
    const response = await exchange(url, { target: "/metrics", host: false, headers });
    assert.equal(response.status, status, headers.join());
  }
});

test("metrics.listen on a network address takes any name, and no request of a web page", () => {
  const policy = toBrowserPolicy({ host: "0.0.0.0", publicUrl: null });
  const guard = (...rawHeaders: string[]) =>
    guardNetwork(
      { method: "GET", rawHeaders: ["Host", "node.example:9464", ...rawHeaders] },
      policy,
    );

  guard();
  assert.throws(() => guard("Origin", "http://foreign.example"), { code: 40301 });
  assert.throws(() => guard("Sec-Fetch-Site", "same-site"), { code: 40301 });
});

test("scrapes within a second share one rendering", async (t) => {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const daemon = await startTestDaemon(t, { clock, toml: OWN });
  const posted = 'postbackd_tasks_posted_total{type="echo"}';
  assert.equal((await values(daemon)).get(posted), undefined);
  await daemon.post([{}]);

  clock.advance(999);
  assert.equal((await values(daemon)).get(posted), undefined);
  clock.advance(1);
  assert.equal((await values(daemon)).get(posted), 1);
});

const TOKEN = "0123456789abcdef".repeat(2);

/** The status of /metrics, or another path, at the API's address. */
async function statusOf({ url }: TestDaemon, headers: readonly string[], target = "/metrics") {
  return (await exchange(url, { target, headers })).status;
}

const withToken = (token: string) => [`Authorization: Bearer ${token}`];

test("at the API's address the operator and metrics.token read metrics, and the token nothing else", async (t) => {
  const toml = `[metrics]\ntoken = "${TOKEN}"\n[log]\nrequests = true\n`;
  const daemon = await startTestDaemon(t, { toml });
  assert.equal(daemon.daemon.metricsUrl, null);
  const cookie = cookieLine(daemon.url, await createOperatorSession(daemon.file));
  const seen = await exchange(daemon.url, { target: "/metrics", headers: [cookie, ...FROM_PAGE] });
  assert.equal(headerOf(seen, "content-type"), CONTENT_TYPES.prometheus);
  assert.match(seen.body.toString(), /^postbackd_build_info\{version="/m);

  const [token = ""] = withToken(TOKEN);
  const basic = Buffer.from(`metrics:${TOKEN}`).toString("base64");
  for (const line of [token, `authorization: BEARER ${TOKEN}`]) {
    assert.equal(await statusOf(daemon, [line]), 200, line);
  }
  const refused = [
    [[], [token, token], [token, bearer(daemon)], [`Authorization: ${TOKEN}`]],
    [withToken(`${TOKEN}0`), withToken(TOKEN.slice(1)), withToken(TOKEN.toUpperCase())],
    [withToken(` ${TOKEN}`), [`Authorization: Basic ${basic}`]],
    [[`X-Api-Key: ${TOKEN}`], [`Cookie: token=${TOKEN}`]],
  ];
  for (const headers of refused.flat()) {
    assert.equal(await statusOf(daemon, headers), 401, headers.join());
  }
  assert.equal(await statusOf(daemon, [], `/metrics?token=${TOKEN}`), 401);
  assert.equal(await statusOf(daemon, [bearer(daemon)]), 403);
  for (const path of ["/v1/tasks", "/v1/appendix/user_data", "/v1/stats/overview"]) {
    assert.equal(await statusOf(daemon, [token], path), 401, path);
  }
  assert.match(daemon.logLines.join(""), /"path":"\/metrics",.*"caller":"metrics\.token"/);
  assert.ok(!daemon.logLines.join("").includes(TOKEN));
});

test("a reload sets, changes and removes metrics.token", async (t) => {
  const daemon = await startTestDaemon(t);
  const other = TOKEN.toUpperCase();
  for (const [toml, ...expected] of [
    ["", 401, 401, 401],
    [`metrics.token = "${TOKEN}"`, 401, 200, 401],
    [`metrics.token = "${other}"`, 401, 401, 200],
    [`log.level = "info"`, 401, 401, 401],
  ] as const) {
    daemon.daemon.reload(testConfig(daemon.folder, { toml }));
    const statuses = [];
    for (const token of ["null", TOKEN, other]) {
      statuses.push(await statusOf(daemon, withToken(token)));
    }
    assert.deepEqual(statuses, expected, toml);
  }
});

test("wrong tokens for metrics count as refused credentials, and never refuse the right token", async (t) => {
  const toml = `[limits]\nfailed_authentications_per_minute = 3\n[metrics]\ntoken = "${TOKEN}"\n`;
  const daemon = await startTestDaemon(t, { toml });
  for (const [i, status] of [401, 401, 401, 429, 429].entries()) {
    assert.equal(await statusOf(daemon, withToken(`${TOKEN}${i}`)), status);
  }
  assert.equal(await statusOf(daemon, withToken(TOKEN)), 200);
});

test("requests, tasks, runs, deliveries, commits and roles are counted", async (t) => {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const toml = `${OWN}${PRINT}[types.copy]\nrunner = "echo"\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  await daemon.post([{ type: "copy", postback_url: receiver.url("/") }, { type: "print" }]);
  await daemon.daemon.idle();
  clock.advance(7000);

  const seen = await values(daemon);

  const expected = {
    'postbackd_http_requests_total{operation="POST /v1/tasks/task_post",status="2xx"}': 1,
    'postbackd_tasks_posted_total{type="copy"}': 1,
    'postbackd_tasks_started_total{type="copy"}': 1,
    'postbackd_tasks_ended_total{type="copy",state="completed"}': 1,
    'postbackd_runs_total{type="copy",outcome="completed"}': 1,
    'postbackd_queue_wait_seconds_count{type="copy"}': 1,
    'postbackd_delivery_attempts_total{kind="postback",outcome="failed"}': 1,
    postbackd_deliveries_retrying: 1,
    postbackd_receivers_failing: 1,
    postbackd_delivery_lanes: 1,
    'postbackd_tasks{state="completed"}': 1,
    'postbackd_tasks{state="queued"}': 1,
    'postbackd_queue_tasks{type="print"}': 1,
    'postbackd_queue_age_seconds{type="print"}': 7,
    'postbackd_queue_age_seconds{type="copy"}': 0,
    'postbackd_queue_without_worker{type="print"}': 1,
    'postbackd_workers_waiting{type="print"}': 0,
    postbackd_nodes: 1,
    ...Object.fromEntries(NODE_ROLES.map((role) => [`postbackd_node_role{role="${role}"}`, 1])),
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(seen.get(name), value, name);
  assert.equal(seen.get('postbackd_queue_without_worker{type="copy"}'), undefined);
  for (const name of ["postbackd_store_commit_duration_seconds_count", "process_open_fds"])
    assert.ok((seen.get(name) ?? 0) > 0, name);
  assert.ok((seen.get("postbackd_database_size_bytes") ?? 0) > 0);
});

test("10,000 hosts add no series, and 4,000 types beyond the limit one series to each counter", () => {
  const meter = new Meter();
  const happen = (type: string): void => {
    meter.post({ accepted: new Map([[type, 1]]), refused: 1 });
    meter.start({ type, waitedMs: 1 });
    meter.run({ type, outcome: "completed", ms: 1 });
    meter.end({ type, state: "completed" });
  };
  const send = (host: string): void => {
    const common = { kind: "postback", host, ms: 1, lagMs: 1 } as const;
    meter.attempt({ ...common, outcome: "failed", state: "scheduled" });
    meter.attempt({ ...common, outcome: "delivered", state: "delivered" });
  };
  const lines = (): readonly string[] => exposition(meter.families(), "prometheus").split("\n");
  send("first.example");
  for (let i = 0; i < TYPES_MAX; i++) happen(`type-${i}`);
  const before = lines().length;

  for (let i = 0; i < 10_000; i++) send(`host-${i}.example`);
  const ofHosts = lines();
  for (let i = 0; i < 4000; i++) happen(`more-${i}`);
  const text = lines().join("\n");

  assert.equal(ofHosts.length, before);
  assert.doesNotMatch(text, /host-|example/);
  // One more for each series that has a type.
  const counters = ["posted_total", "started_total", "ended_total", "runs_total"].length;
  assert.equal(text.split("\n").length, before + counters);
  assert.match(text, /^postbackd_tasks_posted_total\{type="other"\} 4000$/m);
  assert.match(text, /^postbackd_queue_wait_seconds_count\{type="other"\} 4900$/m);
  assert.equal(HISTOGRAM_TYPES_MAX, 100);
});

test("series follow the rules of Prometheus and have no label for hosts or accounts", () => {
  for (const name of Object.keys(SERIES) as SeriesName[]) {
    const { kind, bounds, help, labels } = SERIES[name];
    assert.ok(!labels.some((label) => /host|url|login|account/.test(label)), name);
    assert.equal(name.endsWith("_total"), kind === "counter", name);
    assert.match(name, /^[a-z][a-z0-9_]*$/);
    assert.doesNotMatch(name, /_(ms|milliseconds|mb|kb|percent)(_|$)/, name);
    assert.match(help, /\.$/, name);
    assert.deepEqual(
      [...bounds],
      bounds.toSorted((a, b) => a - b),
      name,
    );
  }
});
