import assert from "node:assert/strict";
import { test } from "node:test";

import type { TypeConfig } from "../../src/config/config.ts";
import { CWD, load, loaded, problemOf, problemsOf } from "../helpers/config.ts";
import type { Setup } from "../helpers/config.ts";

test("a command type has all its keys", () => {
  const toml = [
    "[types.resize]",
    'command = ["python3", "resize.py"]',
    'timeout = "30s"',
    "concurrency = 2",
    "retries = 3",
    'cwd = "work"',
    'env = { LANG = "C", __proto__ = "x" }',
  ].join("\n");
  const config = loaded({ flags: { config: "/etc/p.toml" }, files: { "/etc/p.toml": toml } });

  const type = config.types.get("resize");
  const expected: Omit<Extract<TypeConfig, { kind: "command" }>, "env"> = {
    kind: "command",
    name: "resize",
    timeoutMs: 30_000,
    concurrency: 2,
    retries: 3,
    command: ["python3", "resize.py"],
    cwd: "/etc/work",
  };
  assert.ok(type?.kind === "command");
  const { env, ...rest } = type;
  assert.deepEqual(rest, expected);
  assert.deepEqual(Object.entries(env), [
    ["LANG", "C"],
    ["__proto__", "x"],
  ]);
  assert.deepEqual([...config.types.keys()], ["resize"]);
  assert.equal(config.sources.get("types.resize.timeout"), "file /etc/p.toml");
});

test("a command without cwd runs in the folder of the file", () => {
  const type = loaded({ toml: '[types.x]\ncommand = ["./x"]' }).types.get("x");

  assert.equal(type?.kind === "command" ? type.cwd : null, CWD);
  assert.equal(type?.retries, 0);
});

test("no output shows the command or the environment of a type", () => {
  const rows = ['command = ["x", "hunter2", 1]', 'env = { A = "hunter2", B = ["hunter2"] }'];
  const problems = problemsOf({ toml: `[types.x]\n${rows.join("\n")}` });

  assert.equal(problems.length, 2);
  assert.doesNotMatch(problems.join("\n"), /hunter2/);
});

test("an http type has all its keys, and 16 concurrent runs by default", () => {
  const toml = [
    "[types.all]",
    'url = "HTTPS://Resize.Internal:9443/v1/./resize?fast=1#top"',
    'headers = { Authorization = "Bearer abc", x-Team = "", User-Agent = "us" }',
    'timeout = "90s"',
    "concurrency = 2",
    "retries = 1",
    "[types.least]",
    'url = "http://[::1]:9000"',
  ].join("\n");
  const { types } = loaded({ toml });

  const all: TypeConfig = {
    ...{ kind: "http", name: "all", timeoutMs: 90_000, concurrency: 2, retries: 1 },
    url: "https://resize.internal:9443/v1/resize?fast=1",
    headers: { authorization: "Bearer abc", "x-team": "", "user-agent": "us" },
  };
  const least: TypeConfig = {
    ...{ kind: "http", name: "least", timeoutMs: 600_000, concurrency: 16, retries: 0 },
    ...{ url: "http://[::1]:9000/", headers: {} },
  };
  assert.deepEqual([...types.values()], [all, least]);
});

test("an http type accepts private addresses, and refuses other schemes without quoting them", () => {
  for (const url of [
    "http://localhost/",
    "http://10.0.0.1:1/",
    "http://resize:9000/",
    "https://x/",
  ]) {
    const type = loaded({ toml: `[types.x]\nurl = "${url}"` }).types.get("x");
    assert.equal(type?.kind === "http" ? type.url : null, url);
  }
  const refused = [
    ...['""', '"hunter2"', '"ftp://hunter2"', '"file:///hunter2"', '"//hunter2/"', '"http://"'],
    ...['"http://hunter2:99999/"', '"http://x/\\nhunter2"', '"unix:/hunter2"', "5", '["http://x"]'],
  ];
  for (const url of refused) {
    const problem = problemOf({ toml: `[types.x]\nurl = ${url}` });
    assert.match(problem, /types\.x\.url must be an http or https URL, such as /, url);
    assert.doesNotMatch(problem, /hunter2/);
  }
});

test("user and password in a url are refused without quoting them", () => {
  for (const user of ["hunter2", "hunter2:", ":hunter2", "a:hunter2"]) {
    const problem = problemOf({ toml: `[types.x]\nurl = "http://${user}@host/?q=hunter2"` });
    assert.match(problem, /must hold no user and password: give headers = \{ Authorization/);
    assert.doesNotMatch(problem, /hunter2/);
  }
});

test("headers of the runner are refused", () => {
  const own = [
    ...["Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type"],
    ...["Expect", "Host", "Idempotency-Key", "Keep-Alive", "Proxy-Connection", "TE", "Trailer"],
    ...["Transfer-Encoding", "Upgrade", "hOsT"],
  ];
  for (const name of own) {
    const toml = `[types.x]\nurl = "http://x"\nheaders = { ${name} = "hunter2" }`;
    assert.match(problemOf({ toml }), new RegExp(`must not set ${name.toLowerCase()}: `));
  }
});

test("no output shows the query of a url or the values of headers", () => {
  const toml = '[types.x]\nurl = "http://x/a?k=hunter2#h"\nheaders = { X-Key = "hunter2" }';
  const { values } = loaded({ toml });

  assert.equal(values.get("types.x.url"), "http://x/a?…");
  assert.deepEqual(values.get("types.x.headers"), ["X-Key"]);
  const plain = loaded({ toml: '[types.x]\nurl = "http://x/a"' });
  assert.equal(plain.values.get("types.x.url"), "http://x/a");
});

test("a worker type has a lease of 1 s to 1 h, by default 30 s", () => {
  const leaseOf = (row: string): number | null => {
    const type = loaded({ toml: `[types.x]\nrunner = "worker"\n${row}` }).types.get("x");
    return type?.kind === "worker" ? type.leaseMs : null;
  };

  assert.equal(leaseOf(""), 30_000);
  assert.equal(leaseOf('lease = "1s"'), 1000);
  assert.equal(leaseOf('lease = "1h"'), 3_600_000);
  const toml = '[types.x]\nrunner = "worker"\ntimeout = "2m"\nretries = 1';
  const expected: TypeConfig = {
    ...{ kind: "worker", name: "x", timeoutMs: 120_000, concurrency: 10_000, retries: 1 },
    leaseMs: 30_000,
  };
  assert.deepEqual(loaded({ toml }).types.get("x"), expected);
  for (const lease of ['"999ms"', '"3601s"', '"0s"', '"-1s"', "30", '"soon"']) {
    const toml = `[types.x]\nrunner = "worker"\nlease = ${lease}`;
    assert.match(problemOf({ toml }), /types\.x\.lease /);
  }
});

test("a type name has 1 to 64 of the characters A-Z a-z 0-9 . _ -", () => {
  const typesWith = (name: string): Setup => ({
    toml: `[types.${JSON.stringify(name)}]\nrunner = "echo"`,
  });

  for (const name of ["a", "A.b_c-9", "x".repeat(64), "__proto__", "constructor", "toString"]) {
    assert.deepEqual([...loaded(typesWith(name)).types.keys()], [name]);
  }
  for (const name of ["", "a b", "é", "x".repeat(65), "a/b"]) {
    assert.match(problemOf(typesWith(name)), /must have a name of 1 to 64 of the characters/);
  }
});

test("marketplaces keep their order and all their keys", () => {
  const toml = [
    "[[marketplaces]]",
    'code = "us"',
    'name = "United States"',
    'currency = "USD"',
    "opened = 2020-01-02",
    "[marketplaces.tax]",
    "rates = [1, 2.5]",
    "[[marketplaces]]",
    'code = "de"',
    'name = "Deutschland"',
  ].join("\n");

  assert.deepEqual(loaded({ toml }).marketplaces, [
    {
      code: "us",
      name: "United States",
      details: { currency: "USD", opened: "2020-01-02", tax: { rates: [1, 2.5] } },
    },
    { code: "de", name: "Deutschland", details: {} },
  ]);
});

test("a type reads secrets of variables and headers from files, and shows none of them", () => {
  const toml = [
    "[types.a]",
    'command = ["a"]',
    'env = { LANG = "C" }',
    'env_files = { TOKEN = "token" }',
    "[types.b]",
    'url = "http://x"',
    'header_files = { Authorization = "/run/token" }',
  ].join("\n");
  const files = { "/srv/app/token": "hunter2\n", "/run/token": "Bearer hunter3\n" };
  const { types, values } = loaded({ toml, files });
  const [a, b] = [types.get("a"), types.get("b")];

  assert.ok(a?.kind === "command" && b?.kind === "http");
  assert.deepEqual({ ...a.env }, { LANG: "C", TOKEN: "hunter2" });
  assert.deepEqual({ ...b.headers }, { authorization: "Bearer hunter3" });
  assert.ok(!JSON.stringify([...values]).includes("hunter"));
});

test("a missing, doubled or useless file of a secret is a problem of its key", () => {
  const cases: readonly [rows: string, key: string][] = [
    ['command = ["a"]\nenv_files = { T = "gone" }', "types.x.env_files"],
    ['command = ["a"]\nenv_files = { T = "t" }\nenv = { T = "1" }', "types.x.env_files"],
    ['command = ["a"]\nenv_files = "t"', "types.x.env_files"],
    ['command = ["a"]\nenv_files = { T = 5 }', "types.x.env_files"],
    ['command = ["a"]\nheader_files = { T = "t" }', "types.x.header_files"],
    ['url = "http://x"\nheader_files = { T = "bad" }', "types.x.headers"],
  ];
  for (const [rows, key] of cases) {
    const files = { "/srv/app/t": "hunter2", "/srv/app/bad": "hunter\u0001" };
    const verdict = load({ toml: `[types.x]\n${rows}`, files });
    const problems = verdict.kind === "problems" ? verdict.problems : [];
    assert.deepEqual([problems.length, problems[0]?.key], [1, key], rows);
    assert.ok(!problems[0]?.message.includes("hunter"));
  }
});
