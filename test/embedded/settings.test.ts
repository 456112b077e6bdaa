import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { createDaemon, type DaemonSettings } from "postbackd";

import { readSettings } from "../../src/embedded/settings.ts";
import { temporaryFolder } from "../helpers/program.ts";

const types = { double: () => 2 };
const place = { database: "/nowhere/postbackd.db", cwd: "/srv/app" };

test("all problems are reported together, each by its key, without secrets", () => {
  const settings = {
    types: { a: { url: "http://u:hunter2@x/" }, b: { command: [], env: { K: 1 } }, "c d": 5 },
    config: { webhooks: { timeout: "fast", allow: ["300.0.0.0/8"] }, limits: { body: 1 } },
    port: -1,
    typos: true,
  };

  assert.throws(
    () => readSettings(settings, place),
    ({ message }: Error) => {
      const keys = [...message.matchAll(/^- (types\."c d"|[\w.]+)/gm)].map(([, key = ""]) => key);
      assert.deepEqual(keys.toSorted(), [
        ...["limits.body", "port", 'types."c d"', "types.a.url", "types.b.command"],
        ...["types.b.env", "typos", "webhooks.allow", "webhooks.timeout"],
      ]);
      return !message.includes("hunter2");
    },
  );
});

test("undefined settings have their defaults", () => {
  const run = (): number => 1;
  const { config, log } = readSettings(
    {
      types: { x: { run, timeout: undefined, url: undefined } },
      config: { webhooks: { allow: undefined }, limits: undefined, retention_days: undefined },
      ...{ port: undefined, database: undefined, clock: undefined, log: undefined },
    },
    place,
  );

  assert.deepEqual(config.types.get("x"), {
    ...{ kind: "function", name: "x", timeoutMs: 600_000, concurrency: 16, retries: 0, run },
  });
  const { database, port, host, retentionDays } = config;
  assert.deepEqual(
    { database, port, host, retentionDays, log },
    {
      ...{ database: place.database, port: 0, host: "127.0.0.1", retentionDays: 30, log: false },
    },
  );
});

test("types of every kind and keys of the file are read as in the file", () => {
  const { config } = readSettings(
    {
      types: {
        a: { run: () => 1, timeout: "10s", concurrency: 4, retries: 2 },
        b: { command: ["sh", "-c", "true"], cwd: "work" },
        c: { url: "http://127.0.0.1:9/x", headers: { A: "b" } },
        d: { runner: "worker", lease: "5s" },
        e: { runner: "echo" },
      },
      config: {
        webhooks: { allow: ["127.0.0.1:9000"], retry_after: ["1s"] },
        marketplaces: [{ code: "de", name: "Germany" }],
        limits: { result: "2KiB" },
      },
      database: "data/x.db",
      port: 8080,
    },
    place,
  );

  const kinds = [...config.types.values()].map(({ kind }) => kind);
  assert.deepEqual(kinds, ["function", "command", "http", "worker", "echo"]);
  const [a, b] = config.types.values();
  assert.ok(a?.kind === "function" && b?.kind === "command");
  assert.deepEqual([a.timeoutMs, a.concurrency, a.retries], [10_000, 4, 2]);
  assert.deepEqual([b.cwd, config.database], ["/srv/app/work", "/srv/app/data/x.db"]);
  assert.deepEqual([config.webhooks.allow, config.port], [["127.0.0.1:9000"], 8080]);
  assert.deepEqual([config.marketplaces.length, config.limits.resultBytes], [1, 2048]);
});

test("refused settings leave no folder", async (t) => {
  const folder = temporaryFolder(t);
  const before = process.env["TMPDIR"];
  t.after(() => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  });
  process.env["TMPDIR"] = folder;
  assert.equal(tmpdir(), folder);

  await assert.rejects(createDaemon({ types, port: -1 }), /port must be/);
  // A program without types may pass it.
  await assert.rejects(createDaemon(undefined as unknown as DaemonSettings), /must be an object/);
  await assert.rejects(createDaemon({ types, database: join(folder, "no", "x.db") }), /no/);

  assert.deepEqual(readdirSync(folder), []);
});
