import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { BINARY } from "./binary.ts";

/** Every package whose code is in the executable; one more needs a reason, and its place here. */
const PACKAGES = [
  // Node's own.
  ...["balanced-match", "brace-expansion"],
  ...["@bomb.sh/tab", "@pinojs/redact", "atomic-sleep", "better-sqlite3", "citty", "consola"],
  ...["croner", "defu"],
  ...["get-port-please", "h3"],
  ...["http-shutdown", "listhen", "on-exit-leak-free", "pathe", "pino", "pino-std-serializers"],
  ...["quick-format-unescaped", "rou3", "safe-stable-stringify", "smol-toml", "sonic-boom", "srvx"],
  ...["std-env"],
  // pg, and what it brings along.
  ...[
    "pg",
    "pg-cloudflare",
    "pg-connection-string",
    "pg-int8",
    "pg-pool",
    "pg-protocol",
    "pg-types",
  ],
  ...["pgpass", "postgres-array", "postgres-bytea", "postgres-date", "postgres-interval", "split2"],
  ...["xtend"],
];

/** Words of what was left out: what starts tunnels, makes certificates, opens browsers, writes to the clipboard. */
const LEFT_OUT = [
  ...["cloudflared", "node_modules/untun", "node_modules/node-forge"],
  ...["node_modules/tinyclip", "node_modules/uqr", "node_modules/crossws", "open_generic_xdg"],
  ...["node_modules/consola/dist/chunks/prompt", "node_modules/thread-stream"],
];

test("the executable has the code of the listed packages alone", () => {
  const text = readFileSync(BINARY, "latin1");
  const found = [...text.matchAll(/\n\s*\/\/ node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g)];
  const packages = new Set(found.map(([, name = ""]) => name));

  assert.deepEqual([...packages].toSorted(), PACKAGES.toSorted());
});

test("the executable has no code of unused features of its packages", () => {
  const bytes = readFileSync(BINARY);

  assert.deepEqual(
    LEFT_OUT.filter((word) => bytes.includes(word)),
    [],
  );
});
