import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";

import { SERIES, type SeriesKind } from "../../src/http/metrics/series.ts";
import { type TestDaemon, startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { OWN_ADDRESS, areAtHand, startPeer } from "./peer-process.ts";

const DEPLOY = join(dirname(dirname(import.meta.dirname)), "deploy");
const RULES = join(DEPLOY, "prometheus", "postbackd.rules.yml");
const DASHBOARD = join(DEPLOY, "grafana", "postbackd.json");
const PROMTOOL = { program: "promtool", debianPackage: "prometheus" };
const TOKEN = "0123456789abcdef".repeat(2);
const PROMETHEUS = { program: "prometheus", debianPackage: "prometheus" };

/** The findings of promtool; empty if it succeeds. */
function promtool(args: readonly string[], input = ""): string {
  const cwd = dirname(RULES);
  const { status, stdout, stderr } = spawnSync("promtool", args, { cwd, input, encoding: "utf8" });
  return status === 0 ? "" : `${stdout}${stderr}`;
}

/** A daemon with a value in nearly every series. */
async function startBusy(t: TestContext): Promise<TestDaemon> {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const types = '[types.copy]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';
  const daemon = await startTestDaemon(t, {
    toml: `[metrics]\nlisten = "127.0.0.1:0"\ntoken = "${TOKEN}"\n${types}`,
  });
  const webhook = { postback_url: receiver.url("/"), pingback_url: receiver.url("/") };
  const { tasks } = await daemon.post([
    { type: "copy", ...webhook },
    ...[{ type: "print" }, { type: "print" }, { type: "unknown" }],
  ]);
  await daemon.call(`/v1/tasks/task_cancel/${tasks[1]?.id}`, { method: "POST" });
  await daemon.daemon.idle();
  return daemon;
}

test("promtool accepts the metrics, and a Prometheus server scrapes them at both addresses", async (t) => {
  if (!areAtHand(t, [PROMTOOL, PROMETHEUS])) return;
  const { daemon, url } = await startBusy(t);
  const metricsUrl = daemon.metricsUrl ?? assert.fail();

  const text = await (await fetch(metricsUrl)).text();
  assert.equal(promtool(["check", "metrics"], text), "");
  assert.notEqual(promtool(["check", "metrics"], text.replaceAll("_total", "")), "");
  const targets = await scrape(t, {
    own: { static_configs: [{ targets: [new URL(metricsUrl).host] }] },
    api: {
      static_configs: [{ targets: [new URL(url).host] }],
      authorization: { type: "Bearer", credentials: TOKEN },
    },
    refused: { static_configs: [{ targets: [new URL(url).host] }] },
  });

  const { own, api, refused } = targets;
  assert.deepEqual([own?.health, own?.lastError], ["up", ""]);
  assert.deepEqual([api?.health, api?.lastError], ["up", ""]);
  assert.equal(refused?.health, "down");
  assert.match(refused.lastError, /401/);
});

interface Target {
  readonly health: string;
  readonly lastError: string;
  readonly labels: { readonly job: string };
}

/** Runs a Prometheus server with these jobs until it has scraped each; returns their targets by job. */
async function scrape(
  t: TestContext,
  jobs: Readonly<Record<string, object>>,
): Promise<Readonly<Record<string, Target>>> {
  const at = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
  const configs = Object.entries(jobs).map(([job_name, job]) => ({ job_name, ...job }));
  const config = { global: { scrape_interval: "1s" }, scrape_configs: configs };
  await startPeer(t, {
    ...at,
    // JSON is YAML.
    files: { "prometheus.yml": JSON.stringify(config) },
    command: [
      "prometheus",
      "--config.file=prometheus.yml",
      "--storage.tsdb.path=data",
      `--web.listen-address=${at.host}:${at.port}`,
    ],
  });
  for (;;) {
    const response = await fetch(`http://${at.host}:${at.port}/api/v1/targets`);
    if (!response.ok) {
      await response.body?.cancel();
      continue;
    }
    // Prometheus documents this shape.
    const { data } = (await response.json()) as {
      readonly data: { readonly activeTargets: readonly Target[] };
    };
    const scraped = data.activeTargets.filter(({ health }) => health !== "unknown");
    if (scraped.length === configs.length) {
      return Object.fromEntries(scraped.map((target) => [target.labels.job, target]));
    }
  }
}

test("the alerts pass their own tests", (t) => {
  if (!areAtHand(t, [PROMTOOL])) return;

  assert.equal(promtool(["check", "rules", "postbackd.rules.yml"]), "");
  assert.equal(promtool(["test", "rules", "postbackd.rules.test.yml"]), "");
});

/** The names of series in an expression. */
function namesIn(text: string): readonly string[] {
  return text.match(/\b(?:postbackd|process)_[a-z0-9_]+/g) ?? [];
}

function assertKnown(names: readonly string[]): void {
  const table: Readonly<Record<string, SeriesKind>> = SERIES;
  const known = Object.entries(table).flatMap(([name, { kind }]) =>
    kind === "histogram" ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix) : [name],
  );
  assert.deepEqual(
    [...new Set(names)].filter((name) => !known.includes(name)),
    [],
  );
}

test("the alerts and their tests name existing series", () => {
  const rules = readFileSync(RULES, "utf8");
  const tests = readFileSync(join(dirname(RULES), "postbackd.rules.test.yml"), "utf8");
  const names = [rules, tests].map((text) => namesIn(text.replaceAll(/^#.*/gm, "")));

  assert.ok(names.every(({ length }) => length > 12));
  assertKnown(names.flat());
  const alerts = [...rules.matchAll(/alert: (\w+)/g)].map(([, name = ""]) => name);
  for (const name of alerts) assert.ok(tests.includes(name), `${name} has no test`);
});

test("the Grafana dashboard names existing series, each with its job", () => {
  const { title, panels } = JSON.parse(readFileSync(DASHBOARD, "utf8")) as {
    readonly title: string;
    readonly panels: readonly {
      readonly id: number;
      readonly targets: readonly { readonly expr: string }[];
    }[];
  };
  const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

  assert.equal(title, "postbackd");
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  assert.ok(expressions.length > 30);
  assertKnown(expressions.flatMap(namesIn));
  assert.ok(expressions.every((expr) => expr.includes('job="$job"')));
});

test("Prometheus parses every expression of the dashboard", (t) => {
  if (!areAtHand(t, [PROMTOOL])) return;
  const text = readFileSync(DASHBOARD, "utf8").replaceAll("$__rate_interval", "1m");
  const expressions = [...text.matchAll(/"expr": ("(?:[^"\\]|\\.)*")/g)].map(
    ([, json = ""]) => json,
  );
  const rules = expressions.map((expr, i) => `{ record: "panel_${i}", expr: ${expr} }`);

  const file = join(tempFolder(t), "panels.yml");
  writeFileSync(file, `groups: [{ name: panels, rules: [${rules.join(", ")}] }]`);

  assert.equal(promtool(["check", "rules", file]), "");
});
