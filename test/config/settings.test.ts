import assert from "node:assert/strict";
import { test } from "node:test";

import { SETTING_LIST } from "../../src/config/config.ts";
import { DEFAULT_FILE, load, loaded, problemOf } from "../helpers/config.ts";
import type { Setup } from "../helpers/config.ts";

test("the default configuration serves one echo type on loopback", () => {
  const config = loaded({});

  assert.partialDeepStrictEqual(config, {
    ...{ file: null, database: "/srv/app/postbackd.db", host: "127.0.0.1", port: 8787 },
    ...{ readyFile: null, insecureHttp: false, trustedProxies: [], tls: null, marketplaces: [] },
    ...{ retentionDays: 30, retentionMs: 30 * 86_400_000 },
    webhooks: { timeoutMs: 10_000, retryAfterMs: [60_000, 300_000, 900_000], allow: [] },
  });
  assert.deepEqual(config.limits, {
    bodyBytes: 1024 ** 2,
    tasksPerPost: 100,
    resultBytes: 4 * 1024 ** 2,
    queueDays: 30,
    writeBacklog: 10_000,
    account: {
      bytes: 10 * 1024 ** 3,
      openTasks: 1_000_000,
      requestsPerMinute: 0,
      tasksPerMinute: 0,
    },
    failedAuthenticationsPerMinute: 300,
    accessRequestsPerHour: 20,
    connections: 4096,
    headerTimeoutMs: 10_000,
    requestTimeoutMs: 30_000,
    sendTimeoutMs: 30_000,
    diskFreeBytes: 128 * 1024 ** 2,
    databaseBytes: 0,
  });
  assert.deepEqual(
    [...config.types.values()],
    [{ kind: "echo", name: "echo", timeoutMs: 600_000, concurrency: 256, retries: 0 }],
  );
});

test("a scalar comes from flags, then the environment, then the file, then the default", () => {
  const flags = { port: "1001" };
  const env = { POSTBACKD_PORT: "1002" };
  const toml = "port = 1003";
  const cases: readonly [Setup, number, string][] = [
    [{ flags, env, toml }, 1001, "flag --port"],
    [{ env, toml }, 1002, "environment POSTBACKD_PORT"],
    [{ toml }, 1003, `file ${DEFAULT_FILE}`],
    [{}, 8787, "default"],
  ];

  for (const [setup, port, source] of cases) {
    const config = loaded(setup);
    assert.equal(config.port, port);
    assert.equal(config.sources.get("port"), source);
  }
});

test("a list comes entirely from the first source that has it", () => {
  const flags = { "allow-target": ["a.lan", "b.lan:9000"] };
  const env = { POSTBACKD_ALLOW_TARGET: "10.1.0.0/16, [::1]:9000" };
  const toml = '[webhooks]\nallow = ["127.0.0.1:9000"]';
  const cases: readonly [Setup, readonly string[], string][] = [
    [{ flags, env, toml }, ["a.lan", "b.lan:9000"], "flag --allow-target"],
    [{ flags: { "allow-target": "a.lan" }, toml }, ["a.lan"], "flag --allow-target"],
    [{ env, toml }, ["10.1.0.0/16", "[::1]:9000"], "environment POSTBACKD_ALLOW_TARGET"],
    [{ toml }, ["127.0.0.1:9000"], `file ${DEFAULT_FILE}`],
    [{}, [], "default"],
  ];

  for (const [setup, allow, source] of cases) {
    const config = loaded(setup);
    assert.deepEqual(config.webhooks.allow, allow);
    assert.equal(config.sources.get("webhooks.allow"), source);
  }
});

test("an empty variable and an undefined flag count as missing", () => {
  const config = loaded({ flags: { host: undefined }, env: { POSTBACKD_PORT: "" } });

  assert.equal(config.sources.get("host"), "default");
  assert.equal(config.sources.get("port"), "default");
});

test("every setting has a variable, and takes its value", () => {
  const env = {
    POSTBACKD_DB: "data/x.db",
    POSTBACKD_HOST: "[::1]",
    POSTBACKD_PORT: "0",
    POSTBACKD_READY_FILE: "ready.json",
    POSTBACKD_ALLOW_NETWORK_FS: "true",
    POSTBACKD_INSECURE_HTTP: "true",
    POSTBACKD_TRUSTED_PROXY: "10.0.0.0/8,fd00::/8,192.0.2.1",
    POSTBACKD_TLS_CERT: "tls/cert.pem",
    POSTBACKD_TLS_KEY: "/etc/tls/key.pem",
    POSTBACKD_DASHBOARD: "false",
    POSTBACKD_PUBLIC_URL: "HTTPS://PB.example.com:443/",
    POSTBACKD_NOTIFY: "false",
    POSTBACKD_NODE_NAME: "east-1",
    POSTBACKD_NODE_URL: "http://10.0.0.1:8787",
    POSTBACKD_NODE_STATE_FOLDER: "state",
    POSTBACKD_RUN_TYPE: "echo",
    POSTBACKD_WEBHOOKS_TIMEOUT: "500ms",
    POSTBACKD_WEBHOOKS_RETRY_AFTER: "1s,2h,1d",
    POSTBACKD_WEBHOOKS_MAX_IN_FLIGHT: "70",
    POSTBACKD_WEBHOOKS_MAX_IN_FLIGHT_PER_HOST: "3",
    POSTBACKD_ALLOW_TARGET: "receiver.lan",
    POSTBACKD_WEBHOOKS_CA: "tls/ca.pem",
    POSTBACKD_DNS_SERVER: "192.0.2.53,127.0.0.1:5353,[::1]:5353,::1",
    POSTBACKD_RETENTION_DAYS: "1",
    POSTBACKD_LIMITS_BODY: "64KiB",
    POSTBACKD_LIMITS_TASKS_PER_POST: "5",
    POSTBACKD_LIMITS_RESULT: "4096",
    POSTBACKD_LIMITS_QUEUE_DAYS: "7",
    POSTBACKD_LIMITS_WRITE_BACKLOG: "300",
    POSTBACKD_LIMITS_REQUESTS_PER_MINUTE: "600",
    POSTBACKD_LIMITS_ACCOUNT_BYTES: "2MiB",
    POSTBACKD_LIMITS_ACCOUNT_OPEN_TASKS: "7",
    POSTBACKD_LIMITS_ACCOUNT_TASKS_PER_MINUTE: "80",
    POSTBACKD_LIMITS_FAILED_AUTHENTICATIONS_PER_MINUTE: "0",
    POSTBACKD_LIMITS_ACCESS_REQUESTS_PER_HOUR: "2",
    POSTBACKD_LIMITS_CONNECTIONS: "64",
    POSTBACKD_LIMITS_HEADER_TIMEOUT: "5s",
    POSTBACKD_LIMITS_REQUEST_TIMEOUT: "1m",
    POSTBACKD_LIMITS_SEND_TIMEOUT: "3m",
    POSTBACKD_LIMITS_DISK_FREE: "1GiB",
    POSTBACKD_LIMITS_DATABASE_SIZE: "2GiB",
    POSTBACKD_METRICS: "[::1]:9464",
    POSTBACKD_METRICS_TOKEN: "0123456789abcdef0123456789abcdef",
    POSTBACKD_BACKUP_SCHEDULE: "30  2 * * 1-5",
    POSTBACKD_BACKUP_FOLDER: "copies",
    POSTBACKD_BACKUP_KEEP: "3",
    POSTBACKD_EVENTS_URL: "https://ops.example.com/told?by=postbackd",
    POSTBACKD_EVENTS_SECRET: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    POSTBACKD_LOG_LEVEL: "debug",
    POSTBACKD_LOG_FORMAT: "text",
    POSTBACKD_LOG_REQUESTS: "true",
    POSTBACKD_CONFIG: "etc/other.toml",
  };
  const config = loaded({ env, files: { "/srv/app/etc/other.toml": "" } });

  assert.deepEqual(
    SETTING_LIST.map((setting) => setting.env).toSorted(),
    Object.keys(env).toSorted(),
  );
  for (const { key, env: name } of SETTING_LIST) {
    assert.equal(config.sources.get(key), `environment ${name}`);
  }
  assert.partialDeepStrictEqual(config, {
    ...{ file: "/srv/app/etc/other.toml", database: "/srv/app/data/x.db", host: "::1", port: 0 },
    ...{
      readyFile: "/srv/app/ready.json",
      allowNetworkFs: true,
      insecureHttp: true,
      notify: false,
    },
    trustedProxies: ["10.0.0.0/8", "fd00::/8", "192.0.2.1"],
    ...{ dashboard: false, publicUrl: "https://pb.example.com", retentionMs: 86_400_000 },
    backup: { schedule: "30 2 * * 1-5", folder: "/srv/app/copies", keep: 3 },
    events: { url: env.POSTBACKD_EVENTS_URL, secret: env.POSTBACKD_EVENTS_SECRET },
    node: { name: "east-1", url: "http://10.0.0.1:8787", stateFolder: "/srv/app/state" },
    webhooks: {
      ...{ timeoutMs: 500, retryAfterMs: [1_000, 7_200_000, 86_400_000] },
      ...{ maxInFlight: 70, maxInFlightPerHost: 3, ca: "/srv/app/tls/ca.pem" },
      dnsServers: ["192.0.2.53", "127.0.0.1:5353", "[::1]:5353", "::1"],
    },
    metrics: { listen: "[::1]:9464", token: env.POSTBACKD_METRICS_TOKEN },
    tls: { cert: "/srv/app/tls/cert.pem", key: "/etc/tls/key.pem" },
    log: { level: "debug", format: "text", requests: true },
  });
  assert.deepEqual([...config.runTypes], ["echo"]);
  assert.deepEqual([...config.webhooks.allowList.hosts.keys()], ["receiver.lan"]);
  assert.deepEqual(config.limits, {
    bodyBytes: 65_536,
    tasksPerPost: 5,
    resultBytes: 4096,
    queueDays: 7,
    writeBacklog: 300,
    account: { bytes: 2 * 1024 ** 2, openTasks: 7, requestsPerMinute: 600, tasksPerMinute: 80 },
    failedAuthenticationsPerMinute: 0,
    accessRequestsPerHour: 2,
    connections: 64,
    headerTimeoutMs: 5_000,
    requestTimeoutMs: 60_000,
    sendTimeoutMs: 180_000,
    diskFreeBytes: 1024 ** 3,
    databaseBytes: 2 * 1024 ** 3,
  });
});

test("a --no flag switches off, and with the value false it switches on", () => {
  const dashboardOf = (flags: Readonly<Record<string, unknown>>) => {
    const config = loaded({ flags, env: { POSTBACKD_DASHBOARD: "true" } });
    return [config.dashboard, config.sources.get("dashboard")];
  };

  assert.deepEqual(dashboardOf({ "no-dashboard": ["true"] }), [false, "flag --no-dashboard"]);
  assert.deepEqual(dashboardOf({ "no-dashboard": ["false"] }), [true, "flag --no-dashboard"]);
  assert.deepEqual(dashboardOf({}), [true, "environment POSTBACKD_DASHBOARD"]);
});

test("metrics.token is a long secret, not a key, and appears in no output", () => {
  const token = "5ecret-".repeat(5);
  const file = { POSTBACKD_METRICS_TOKEN_FILE: "/run/secrets/metrics" };
  const files = { "/run/secrets/metrics": `${token}\n` };
  assert.equal(loaded({ env: file, files }).metrics.token, token);
  assert.equal(loaded({ env: file, files }).values.get("metrics.token"), "…");
  const wrong = ["", "5ecret", "5ecret ".repeat(5), `${token}\u0000`, "5ecret-".repeat(40)];
  for (const each of [...wrong, `pbd_live_${token}`, `pbd_work_${token}`]) {
    const problem = problemOf({ toml: `metrics.token = ${JSON.stringify(each)}` });
    assert.match(problem, /metrics\.token/);
    assert.doesNotMatch(problem, /5ecret/);
  }
});

test("metrics.listen is an address or a name with its port", () => {
  for (const listen of ["127.0.0.1:9464", "[::1]:0", "metrics.lan:80", "0.0.0.0:65535"]) {
    assert.equal(loaded({ flags: { metrics: listen } }).metrics.listen, listen);
  }
  for (const wrong of ["9464", ":9464", "::1:9464", "127.0.0.1", "127.0.0.1:65536", "a b:1", ""]) {
    assert.match(problemOf({ flags: { metrics: wrong } }), /--metrics/);
  }
});

test("a public URL consists of scheme, host and port", () => {
  const wrong = [
    [
      "pb.example.com",
      "//pb.example.com",
      "ftp://pb.example.com",
      "https:pb.example.com",
      "https://",
    ],
    ["https://pb.example.com/x", "https://pb.example.com?x", "https://pb.example.com/#x", ""],
    [
      "https://user@pb.example.com",
      "https://a b",
      " https://pb.example.com",
      "https://pb\\x",
      5,
      true,
    ],
  ].flat();
  for (const value of wrong) {
    const verdict = load({ flags: { "public-url": value } });
    assert.equal(verdict.kind, "problems", String(value));
  }
  for (const [value, origin] of [
    ["http://pb.lan:8080", "http://pb.lan:8080"],
    ["https://[2001:DB8::1]:8443/", "https://[2001:db8::1]:8443"],
  ] as const) {
    assert.equal(loaded({ flags: { "public-url": value } }).publicUrl, origin);
  }
});

test("logs are text on a terminal and JSON elsewhere by default", () => {
  assert.equal(loaded({ isTerminal: true }).log.format, "text");
  assert.equal(loaded({ isTerminal: false }).log.format, "json");
  assert.equal(loaded({ isTerminal: true, toml: 'log.format = "json"' }).log.format, "json");
});

test("variables of other programs have no effect", () => {
  assert.equal(loaded({ env: { PORT: "1", postbackd_port: "2", POSTBACKDX: "3" } }).port, 8787);
});

test("the paths of a TLS pair may have different sources, each relative to its own folder", () => {
  const flags = { config: "/etc/p.toml", "tls-key": "key.pem" };
  const config = loaded({ flags, files: { "/etc/p.toml": 'tls_cert = "cert.pem"' } });

  assert.deepEqual(config.tls, { cert: "/etc/cert.pem", key: "/srv/app/key.pem" });
});

test("a configuration reports the problems of all sources together", () => {
  const verdict = load({
    flags: { port: "eighty", verbos: true },
    env: { POSTBACKD_LOG_LEVEL: "loud", POSTBACKD_X: "1" },
    toml: [
      "retention_days = 0",
      "colour = true",
      "[webhooks]",
      "timeout = 10",
      'allow = ["http://x", "10.0.0.1/8"]',
      "[types.a]",
      "[types.b]",
      'command = "ls"',
      "retries = 101",
      "[[marketplaces]]",
      'code = "m"',
    ].join("\n"),
  });

  const problems = verdict.kind === "problems" ? verdict.problems : [];
  assert.deepEqual(problems.map(({ key }) => key).toSorted(), [
    "POSTBACKD_X",
    "colour",
    "log.level",
    "marketplaces[0]",
    "port",
    "retention_days",
    "types.a",
    "types.b.command",
    "types.b.retries",
    "verbos",
    "webhooks.allow",
    "webhooks.allow",
    "webhooks.timeout",
  ]);
});

test("a duration is a whole number with a unit", () => {
  const timeoutOf = (text: string): number =>
    loaded({ toml: `webhooks.timeout = "${text}"` }).webhooks.timeoutMs;

  const texts = ["500ms", "10s", "1m", "2h", "1d"];
  assert.deepEqual(texts.map(timeoutOf), [500, 10_000, 60_000, 7_200_000, 86_400_000]);
  for (const text of ["", "s", "0s", "-1s", "1.5s", "1 s", "1S", "1w", "366d", "9999999999999s"]) {
    assert.match(problemOf({ toml: `webhooks.timeout = "${text}"` }), /webhooks\.timeout/);
  }
});

test("plain HTTP beyond loopback needs a certificate, a trusted proxy or insecure_http", () => {
  for (const host of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost"]) {
    assert.equal(loaded({ flags: { host } }).host, host);
  }
  for (const host of ["0.0.0.0", "::", "192.0.2.1", "box", "127.0.0.1.example.com"]) {
    assert.match(problemOf({ flags: { host } }), /--host/);
    assert.equal(loaded({ flags: { host, "insecure-http": true } }).host, host);
    assert.equal(loaded({ flags: { host }, toml: 'trusted_proxies = ["10.0.0.1"]' }).host, host);
    assert.equal(loaded({ flags: { host, "tls-cert": "c", "tls-key": "k" } }).host, host);
  }
});

test("a faulty setting that would allow plain HTTP is the only problem", () => {
  const flags = { host: "0.0.0.0" };

  assert.match(problemOf({ flags, toml: 'trusted_proxies = ["x/y"]' }), /trusted_proxies/);
  assert.match(problemOf({ flags, toml: "insecure_http = 1" }), /insecure_http/);
  assert.match(problemOf({ flags, toml: "insecure_http = " }), /line 1/);
});

test("shown values are as written, and a table shows only its names", () => {
  const env = 'env = { TOKEN = "hunter2" }';
  const toml = `webhooks.timeout = "90s"\ndatabase = "p.db"\n[types."a.b"]\ncommand = ["x"]\n${env}`;
  const { values } = loaded({ toml, flags: { port: "1001" } });

  assert.equal(values.get("webhooks.timeout"), "90s");
  assert.equal(values.get("database"), "/srv/app/p.db");
  assert.equal(values.get("port"), 1001);
  assert.equal(values.get("ready_file"), null);
  assert.deepEqual(values.get('types."a.b".env'), ["TOKEN"]);
  assert.doesNotMatch(JSON.stringify([...values]), /hunter2/);
});

test("the draft of a wrong configuration has defaults for the wrong values", () => {
  const verdict = load({ flags: { port: "eighty", host: "localhost" } });

  assert.ok(verdict.kind === "problems");
  assert.equal(verdict.draft.port, 8787);
  assert.equal(verdict.draft.host, "localhost");
});

test("problems contain neither control characters nor long texts", () => {
  const problems = [
    problemOf({ toml: `port = "\\u001b[31m\\u009b${"x".repeat(5_000)}"` }),
    problemOf({ toml: `"\\u001b\\u009b${"y".repeat(5_000)}" = 1` }),
  ];

  for (const problem of problems) {
    assert.ok(problem.length < 300, problem);
    assert.doesNotMatch(problem, /\p{Cc}/u);
  }
});

test("every part of a configuration is frozen", () => {
  const toml = [
    '[types.x]\ncommand = ["ls"]\nenv = { A = "1" }',
    '[[marketplaces]]\ncode = "x"\nname = "x"\nlist = [[1]]',
  ].join("\n");
  const config = loaded({ toml, flags: { "trusted-proxy": "10.0.0.1" } });

  const parts: unknown[] = [
    config,
    config.webhooks,
    config.webhooks.allow,
    config.webhooks.retryAfterMs,
    config.limits,
    config.log,
    config.trustedProxies,
    config.marketplaces,
    config.marketplaces[0],
    config.marketplaces[0]?.details,
    config.marketplaces[0]?.details["list"],
    ...config.types.values(),
  ];
  for (const type of config.types.values()) {
    if (type.kind === "command") parts.push(type.command, type.env);
  }
  for (const part of parts) assert.ok(Object.isFrozen(part), JSON.stringify(part));
});
