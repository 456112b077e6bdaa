import assert from "node:assert/strict";
import { test } from "node:test";

import { problemsOf, type Setup } from "../helpers/config.ts";
import { assertSentences } from "../helpers/sentences.ts";

// Each file has one problem.
const FILES = [
  ...["prot = 1", 'timeout = "1s"', '[webhooks]\nretry = ["1s"]', "[webhook]\nx = 1"],
  ...['[type.x]\nrunner = "echo"', 'config = "x"', '"webhooks.timeout" = "1s"', 'db = "x"'],
  '[types.x]\nrunner = "echo"\nconcurency = 1',
  ...['port = "80"', "port = 65536", "port = 1.5", "port = nan", "port = [80]"],
  ...["port = { a = 1 }", "port = 2020-01-01", 'tls_cert = "x"'],
  ...["database = 5", 'database = ""', 'database = "a\\u0000b"', 'database = ":memory:"'],
  ...['insecure_http = "yes"', 'host = "http://localhost"', 'host = "127.0.0.1:80"'],
  ...['trusted_proxies = "10.0.0.0/8"', 'trusted_proxies = ["10.0.0.0/8", "10.0.0.0/33"]'],
  ...['trusted_proxies = ["proxy.lan"]', 'trusted_proxies = ["10.1.2.3/8"]'],
  ...['webhooks.dns_servers = ["dns.lan"]', 'webhooks.dns_servers = ["192.0.2.53:0"]'],
  'webhooks.dns_servers = ["192.0.2.53", "[::1]:99999"]',
  ...['webhooks.dns_servers = ["127.1"]', "webhooks = 1", 'webhooks.retry_after = ["1m", 5]'],
  ...["webhooks.max_in_flight = 15", 'webhooks.allow = ["a b"]', "retention_days = 0"],
  ...['limits.body = "1MB"', "limits.body = 10", "limits.requests_per_minute = -1"],
  ...["limits.account = 1", "limits.account.byte = 1", "[limits.account.bytes]\nx = 1"],
  ...["[limits.accounts]\nx = 1", "limits.account.open_tasks = -1"],
  ...["limits.failed_authentications_per_minute = 1.5", "limits.access_requests_per_hour = true"],
  ...["limits.connections = 0", "limits.header_timeout = 10", 'limits.request_timeout = "0s"'],
  ...['limits.disk_free = "128MB"', "limits.database_size = -1", "tls_cert = 5"],
  ...['log.level = "loud"', 'webhooks.timeout = "1.5s"', 'metrics.token = "5ecret"'],
];

/** The rows of a type. */
const TYPES = [
  ...["", 'runner = "echo"\ncommand = ["ls"]', 'command = ["ls"]\nurl = "http://x"'],
  ...['runner = "worker"\nurl = "http://x"', 'runner = "ecko"', "runner = 1"],
  ...['url = "http://x"\nenv = {}', 'url = "http://x"\ncwd = "/"', 'url = "http://x"\nheader = {}'],
  ...['url = "http://x"\nlease = "1m"', 'runner = "worker"\nheaders = {}'],
  ...[
    'command = ["ls"]\nheaders = {}',
    'runner = "echo"\ncwd = "/"',
    'command = ["ls"]\nlease = "1s"',
  ],
  ...["command = []", 'command = [""]', 'command = ["ls", 5]', 'command = ["ls", "a\\u0000"]'],
  ...['command = "ls -l"', 'command = ["ls"]\nenv = { A = 1 }', 'command = ["ls"]\nenv = ["A=1"]'],
  ...['command = ["ls"]\nenv = { "A=B" = "" }', 'runner = "echo"\nretries = -1'],
  ...['runner = "echo"\nretries = 101', 'runner = "echo"\nconcurrency = 0'],
  ...['runner = "echo"\ntimeout = 10', 'runner = "worker"\nlease = "999ms"'],
].map((rows) => `[types.x]\n${rows}`);

const HEADERS = [
  ...[
    '{ Host = "hunter2" }',
    '{ "" = "hunter2" }',
    '{ "a b" = "hunter2" }',
    '{ "a:" = "hunter2" }',
  ],
  ...['{ "é" = "hunter2" }', '{ "a\\r\\nb" = "hunter2" }', '{ x-a = "hunter2\\r\\nx-b: 1" }'],
  ...['{ x-a = "hunter2\\u0000" }', '{ x-a = "hunter2é" }', "{ x-a = 5 }", '{ x-a = ["hunter2"] }'],
  ...['{ x-a = "hunter2", X-A = "b" }', '["x-a: hunter2"]', '"hunter2"'],
].map((headers) => `[types.x]\nurl = "http://x"\nheaders = ${headers}`);

const MARKETPLACES = [
  ...['[[marketplaces]]\nname = "x"', '[[marketplaces]]\ncode = "x"'],
  ...[
    '[[marketplaces]]\ncode = 1\nname = "x"',
    '[[marketplaces]]\ncode = "x"\nname = "x"\nrate = nan',
  ],
  ...['[marketplaces]\ncode = "x"', "marketplaces = [1]", "types = 1", "types.x = 1"],
  `marketplaces = [${'{ code = "x", name = "x" },'.repeat(2)}]`,
];

const OTHERS: Readonly<Record<string, Setup>> = {
  "--allow-targets x": { flags: { "allow-targets": "x" } },
  "--prot 1": { flags: { prot: "1" } },
  "POSTBACKD_PROT=1": { env: { POSTBACKD_PROT: "1" } },
  "POSTBACKD_DATABASE=x": { env: { POSTBACKD_DATABASE: "x" } },
  "POSTBACKD_WEBHOOKS_ALLOW=x": { env: { POSTBACKD_WEBHOOKS_ALLOW: "x" } },
  "POSTBACKD_WEBHOOKS_TIMEOUT=10": { env: { POSTBACKD_WEBHOOKS_TIMEOUT: "10" } },
  "--retention-days 5": { flags: { "retention-days": "5" } },
  "--tls-cert x": { flags: { "tls-cert": "x" } },
  "POSTBACKD_TLS_KEY=x": { env: { POSTBACKD_TLS_KEY: "x" } },
  // The user wants HTTPS, so plain HTTP beyond loopback is not a second problem.
  "--host 0.0.0.0, tls_key": { flags: { host: "0.0.0.0" }, toml: 'tls_key = "x"' },
  "--host 0.0.0.0": { flags: { host: "0.0.0.0" } },
  "--metrics 9464": { flags: { metrics: "9464" } },
  "--public-url pb.example.com": { flags: { "public-url": "pb.example.com" } },
  "POSTBACKD_PORT=tcp://10.0.0.1:80": { env: { POSTBACKD_PORT: "tcp://10.0.0.1:80" } },
};

test("each problem of a configuration has its sentence", (t) => {
  const setups = new Map<string, Setup>([
    ...[...FILES, ...TYPES, ...HEADERS, ...MARKETPLACES].map((toml): [string, Setup] => [
      toml.replaceAll("\n", "; "),
      { toml },
    ]),
    ...Object.entries(OTHERS),
  ]);
  const sentences = [...setups].map(([cause, setup]): [string, string] => {
    const problems = problemsOf(setup);
    assert.equal(problems.length, 1, `${cause}: ${problems.join("\n")}`);
    assert.doesNotMatch(problems.join(), /hunter2/);
    return [cause, problems[0] ?? ""];
  });
  assertSentences(t, import.meta.dirname, sentences);
});
