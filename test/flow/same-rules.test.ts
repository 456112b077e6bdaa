import assert from "node:assert/strict";
import { test } from "node:test";

import { optional } from "../../src/api/input.ts";
import { FILTER_ARGS, filterOf } from "../../src/cli/admin-command.ts";
import { flag } from "../../src/cli/arguments.ts";
import { readArguments } from "../../src/cli/command.ts";
import { UsageError } from "../../src/cli/failure.ts";
import { LOGIN } from "../../src/domain/account/account.ts";
import { allowsHost, parseAllowList } from "../../src/domain/address/allow-list.ts";
import { HOST } from "../../src/domain/address/host-name.ts";
import type { Rule } from "../../src/domain/rule.ts";
import { StatusError } from "../../src/domain/status.ts";
import { parseTaskSearch, type TaskSearch } from "../../src/domain/task/task-search.ts";
import { TAG, TASK_ID } from "../../src/domain/task/task.ts";
import { judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import { parseFields, parseQuery } from "../../src/http/inputs.ts";
import { load, type Setup } from "../helpers/config.ts";

type Parse = (text: string) => string | null;

/** Each place that filters by a host, and how it parses one. */
const FILTERS: readonly (readonly [place: string, parse: Parse])[] = [
  ["admin delivery list --host", (text) => filterOf(flags(`--host=${text}`)).host],
  ["?host=", (text) => queried(HOST, text)],
  ['{ "host": … }', (text) => parseFields({ host: text }, { host: optional(HOST) }).host ?? ""],
  ["host:", (text) => searchOf(`host:${text}`).host ?? ""],
];
/** Each source of the address to listen on, which the system may know by other names too. */
const SOURCES: readonly (readonly [place: string, parse: Parse])[] = [
  ["host = …", (text) => hostOf({ toml: `host = ${JSON.stringify(text)}` })],
  ["POSTBACKD_HOST", (text) => hostOf({ env: { POSTBACKD_HOST: text } })],
  ["start --host", (text) => hostOf({ flags: { host: text } })],
];

/** Hosts as written, and the normal form with which deliveries are stored. */
const HOSTS: readonly (readonly [written: string, host: string])[] = [
  ["LocalHost", "localhost"],
  ["Hooks.EXAMPLE.com", "hooks.example.com"],
  ["bücher.example", "xn--bcher-kva.example"],
  ["BÜCHER.example", "xn--bcher-kva.example"],
  ["bu\u0308cher.example", "xn--bcher-kva.example"],
  ["bücher。example", "xn--bcher-kva.example"],
  ["XN--Bcher-KVA.example", "xn--bcher-kva.example"],
  ["127.0.0.1", "127.0.0.1"],
  ["127.1", "127.0.0.1"],
  ["2130706433", "127.0.0.1"],
  ["0x7f.0.0.1", "127.0.0.1"],
  ["0177.0.0.1", "127.0.0.1"],
  ["[::1]", "::1"],
  ["::1", "::1"],
  ["[0:0:0:0:0:0:0:1]", "::1"],
  ["0000::0001", "::1"],
  ["[::FFFF:127.0.0.1]", "::ffff:7f00:1"],
];

const NOT_HOSTS: readonly string[] = [
  "http://localhost",
  "localhost:80",
  "[::1]:80",
  "[127.0.0.1]",
  "[localhost]",
  "user@host",
  "a..b",
  "a/b",
  "300.0.0.1",
];
const NOT_FILTERS: readonly string[] = [
  "[::1",
  "::1]",
  "fe80::1%eth0",
  "hooks.example.com?x",
  "hooks.example.com#x",
  "hooks%2eexample.com",
  "hooks.example.com.",
  "127.0.0.1.",
  "127.0.0.1。",
  ".example.com",
  "*.example.com",
  "127.0.0.1.5",
  ":::1",
  "::1::",
  `${"a".repeat(64)}.example`,
  `${"a.".repeat(126)}aa`,
];

test("every place that accepts a host parses it to the same normal form", () => {
  for (const [text, host] of HOSTS) {
    for (const [place, parse] of FILTERS) assert.equal(parse(text), host, `${place} ${text}`);
    // A listener keeps the spelling of an IPv6 address.
    if (text.includes(":") && !["::1", "[::1]"].includes(text)) continue;
    for (const [place, parse] of SOURCES) assert.equal(parse(text), host, `${place} ${text}`);
  }
});

test("webhook URLs and webhooks.allow have the same normal form of a host", () => {
  const everything = parseAllowList(["0.0.0.0/0", "::/0", "localhost"]);
  assert(everything.kind === "allow-list");
  const policy = { allow: everything.list, ownNames: [], ownAddresses: [] };
  for (const [text, host] of HOSTS) {
    const isBare = text.includes(":") && !text.startsWith("[");
    const verdict = judgeWebhookUrl(`https://${isBare ? `[${text}]` : text}:9000/x`, policy);
    assert.equal(verdict.kind === "allowed" ? verdict.target.host : verdict.reason, host, text);
    if (!/^[hx]/.test(host)) continue;
    const entry = parseAllowList([`${text}:9000`]);
    assert(entry.kind === "allow-list" && allowsHost(entry.list, host, 9000), text);
  }
});

test("every place that accepts a host rejects other text with the rule of hosts", () => {
  for (const [name, parse] of [...FILTERS, ...SOURCES]) {
    for (const text of NOT_HOSTS) assertRejects(HOST, { name, parse }, text);
  }
  for (const [name, parse] of FILTERS) {
    for (const text of NOT_FILTERS) assertRejects(HOST, { name, parse }, text);
  }
});

/** Values that flags, queries, bodies and searches parse by one rule. */
const VALUES: readonly (readonly [
  rule: Rule<string>,
  search: readonly [word: string, field: "login" | "tag" | "id"],
  valid: readonly string[],
  invalid: readonly string[],
])[] = [
  [
    LOGIN,
    ["account", "login"],
    ["alice", "A.b_c@d+e-f", "..", "x".repeat(64)],
    ["", "a b", "a/b", "é", "x".repeat(65)],
  ],
  [
    TAG,
    ["tag", "tag"],
    ["", "order 17", "日本語", "😀".repeat(255)],
    ["a\nb", "\u009f", "😀".repeat(256)],
  ],
  [
    TASK_ID,
    ["id", "id"],
    ["01890a5d-ac96-774b-bcce-b302099a8057"],
    ["", "1", "01890a5dac96774bbcceb302099a8057"],
  ],
];

test("flags, queries, bodies and searches parse a login, a tag and a task id by the same rule", () => {
  for (const [rule, [word, field], valid, invalid] of VALUES) {
    const places: readonly ((text: string) => unknown)[] = [
      (text) => readArguments([`--value=${text}`], { value: flag(rule, "") }).value,
      (text) => queried(rule, text),
      (text) => parseFields({ value: text }, { value: optional(rule) }).value,
      (text) => searchOf(`${word}:"${text}"`)[field],
    ];
    for (const parse of places) {
      for (const text of valid) assert.equal(parse(text), text);
      for (const text of invalid) assertRejects(rule, { name: word, parse }, text);
    }
  }
});

interface Place {
  readonly name: string;
  readonly parse: (text: string) => unknown;
}

function assertRejects(rule: Rule<string>, { name, parse }: Place, text: string): void {
  assert.throws(
    () => parse(text),
    (error: Error) => textOf(error).includes(rule.takes),
    `${name} ${text}`,
  );
}

function hostOf({ flags: given, ...setup }: Setup): string {
  const verdict = load({ ...setup, flags: { ...given, "insecure-http": true } });
  if (verdict.kind === "config") return verdict.config.host;
  throw new Error(verdict.problems.map(({ message }) => message).join("\n"));
}

function flags(text: string) {
  return readArguments([text], FILTER_ARGS);
}

function queried(rule: Rule<string>, value: string): string {
  return parseQuery(new URLSearchParams({ value }), { value: optional(rule) }).value ?? "";
}

function searchOf(text: string): TaskSearch {
  const parsed = parseTaskSearch(text, 0);
  if ("search" in parsed) return parsed.search;
  throw new Error(parsed.problem);
}

/** The message of a rejection, with its details. */
function textOf(error: Error): string {
  if (error instanceof StatusError) return JSON.stringify([error.message, error.details]);
  assert(error instanceof UsageError || error.constructor === Error, String(error));
  return error.message;
}
