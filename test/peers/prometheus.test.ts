import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { SERIES, type SeriesKind } from "../../src/http/metrics/series.ts";
import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { areAtHand, OWN_ADDRESS, startPeer } from "./peer-process.ts";

/** Prometheus judges what we tell it, and the alerts that we give it. */

const DEPLOY = join(dirname(dirname(import.meta.dirname)), "deploy");
const RULES = join(DEPLOY, "prometheus", "postbackd.rules.yml");
const DASHBOARD = join(DEPLOY, "grafana", "postbackd.json");
const PROMTOOL = { program: "promtool", debianPackage: "prometheus" };
const PROMETHEUS = { program: "prometheus", debianPackage: "prometheus" };

/** What promtool says; empty when it finds nothing. */
function promtool(args: readonly string[], input = ""): string {
  const cwd = dirname(RULES);
  const { status, stdout, stderr } = spawnSync("promtool", args, { cwd, input, encoding: "utf8" });
  return status === 0 ? "" : `${stdout}${stderr}`;
}

/** A daemon that has something to tell in nearly every series. */
async function startBusy(t: TestContext): Promise<TestDaemon> {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const types = '[types.copy]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';
  const daemon = await startTestDaemon(t, {
    toml: `[metrics]\nlisten = "127.0.0.1:0"\n${types}`,
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

test("promtool finds nothing wrong with the metrics", async (t) => {
  if (!areAtHand(t, [PROMTOOL])) return;
  const { daemon } = await startBusy(t);

  const text = await (await fetch(daemon.metricsUrl ?? "")).text();

  assert.equal(promtool(["check", "metrics"], text), "");
  assert.notEqual(promtool(["check", "metrics"], text.replaceAll("_total", "")), "");
});

test("a Prometheus server takes the metrics in, in the format that it likes best", async (t) => {
  if (!areAtHand(t, [PROMETHEUS])) return;
  const { daemon } = await startBusy(t);

  const target = await scrapedBy(t, { url: daemon.metricsUrl ?? "" });

  assert.deepEqual([target.health, target.lastError], ["up", ""]);
});

test("a Prometheus server takes them in at the API's address with the token, and not without it", async (t) => {
  if (!areAtHand(t, [PROMETHEUS])) return;
  const token = "0123456789abcdef".repeat(2);
  const { url } = await startTestDaemon(t, { toml: `metrics.token = "${token}"` });
  const authorization = { type: "Bearer", credentials_file: "token" };

  const target = await scrapedBy(t, { url, more: { authorization }, files: { token } });
  const refused = await scrapedBy(t, { url });

  assert.deepEqual([target.health, target.lastError], ["up", ""]);
  assert.equal(refused.health, "down");
  assert.match(refused.lastError, /401/);
});

interface Scraping {
  /** Of the daemon. */
  readonly url: string;
  /** Beside the target in its `scrape_config`. */
  readonly more?: Readonly<Record<string, unknown>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** The daemon as a Prometheus server sees it, once it has scraped it. */
async function scrapedBy(t: TestContext, { url, more, files }: Scraping): Promise<Target> {
  const { host } = new URL(url);
  const at = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
  const scrape = { job_name: "postbackd", static_configs: [{ targets: [host] }], ...more };
  const config = { global: { scrape_interval: "1s" }, scrape_configs: [scrape] };
  await startPeer(t, {
    ...at,
    // JSON is YAML.
    files: { ...files, "prometheus.yml": JSON.stringify(config) },
    command: [
      "prometheus",
      "--config.file=prometheus.yml",
      "--storage.tsdb.path=data",
      `--web.listen-address=${at.host}:${at.port}`,
    ],
  });

  return firstScrape(`http://${at.host}:${at.port}`);
}

interface Target {
  readonly health: string;
  readonly lastError: string;
}

/** The target, once it was scraped. */
async function firstScrape(url: string): Promise<Target> {
  for (;;) {
    const response = await fetch(`${url}/api/v1/targets`);
    if (response.ok) {
      const { data } = (await response.json()) as {
        readonly data: { readonly activeTargets: readonly Target[] };
      };
      const [target] = data.activeTargets;
      if (target !== undefined && target.health !== "unknown") return target;
    } else {
      await response.body?.cancel();
    }
  }
}

test("the alerts come when they should, and not otherwise", (t) => {
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

test("the alerts and their tests name series that there are", () => {
  const rules = readFileSync(RULES, "utf8");
  const tests = readFileSync(join(dirname(RULES), "postbackd.rules.test.yml"), "utf8");
  const names = [rules, tests].map((text) => namesIn(text.replaceAll(/^#.*/gm, "")));

  assert.ok(names.every(({ length }) => length > 12));
  assertKnown(names.flat());
  const alerts = [...rules.matchAll(/alert: (\w+)/g)].map(([, name = ""]) => name);
  for (const name of alerts) assert.ok(tests.includes(name), `${name} has no test`);
});

test("the dashboard is one that Grafana can read, of series that there are", () => {
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

test("every expression of the dashboard is one that Prometheus can read", (t) => {
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
