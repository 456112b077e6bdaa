import assert from "node:assert/strict";
import { test } from "node:test";

import { tableLines, type Columns } from "../../src/cli/print.ts";

interface Host {
  readonly name: string;
  readonly failed: number;
}

const HOSTS: readonly Host[] = [
  { name: "a.example", failed: 1 },
  { name: "hooks.example.com", failed: 20 },
];

const COLUMNS: Columns<Host> = { HOST: ({ name }) => name, "FAILED WEBHOOKS": (row) => row.failed };

test("shows rows in aligned columns where the terminal is wide enough", () => {
  assert.deepEqual(tableLines(HOSTS, COLUMNS, 34), [
    "HOST               FAILED WEBHOOKS",
    "a.example          1",
    "hooks.example.com  20",
  ]);
});

test("shows a block of lines for each row where the terminal is narrower, and cuts nothing", () => {
  assert.deepEqual(tableLines(HOSTS, COLUMNS, 33), [
    "HOST             a.example",
    "FAILED WEBHOOKS  1",
    "",
    "HOST             hooks.example.com",
    "FAILED WEBHOOKS  20",
  ]);
});
