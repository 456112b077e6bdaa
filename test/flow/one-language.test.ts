import assert from "node:assert/strict";
import { test } from "node:test";

import { optional } from "../../src/api/input.ts";
import { flag } from "../../src/cli/arguments.ts";
import { readArguments } from "../../src/cli/command.ts";
import { UsageError } from "../../src/cli/failure.ts";
import { LOGIN } from "../../src/domain/account/account.ts";
import { HOST } from "../../src/domain/address/host-name.ts";
import type { Rule } from "../../src/domain/rule.ts";
import { StatusError } from "../../src/domain/status.ts";
import { parseTaskSearch, type TaskSearch } from "../../src/domain/task/task-search.ts";
import { TAG, TASK_ID } from "../../src/domain/task/task.ts";
import { parseFields, parseQuery } from "../../src/http/inputs.ts";
import { load, type Setup } from "../helpers/config.ts";

/** Every place where a host is written: the host that is read there, or a refusal that says what a host is. */
const PLACES: readonly (readonly [place: string, read: (text: string) => string])[] = [
  ["host = …", (text) => hostOf({ toml: `host = ${JSON.stringify(text)}` })],
  ["POSTBACKD_HOST", (text) => hostOf({ env: { POSTBACKD_HOST: text } })],
  ["start --host", (text) => hostOf({ flags: { host: text } })],
  ["list --host", (text) => flagged(text)],
  ["?host=", (text) => queried(text)],
  ['{ "host": … }', (text) => parseFields({ host: text }, { host: optional(HOST) }).host ?? ""],
  ["host:", (text) => searched(text)],
];

const READ: readonly (readonly [text: string, host: string])[] = [
  ["[::1]", "::1"],
  ["::1", "::1"],
  ["127.0.0.1", "127.0.0.1"],
  ["127.1", "127.0.0.1"],
  ["LocalHost", "localhost"],
  ["bücher.example", "xn--bcher-kva.example"],
];

const REFUSED: readonly string[] = [
  "http://localhost",
  "localhost:80",
  "[::1]:80",
  "[127.0.0.1]",
  "[localhost]",
  "a..b",
  "a/b",
  "user@host",
  "300.0.0.1",
];

test("a host is read the same wherever it is written", () => {
  for (const [text, host] of READ) {
    for (const [place, read] of PLACES) assert.equal(read(text), host, `${place} ${text}`);
  }
});

test("what is no host is refused in the same words wherever it is written", () => {
  for (const text of REFUSED) {
    for (const [place, read] of PLACES) {
      assert.throws(
        () => read(text),
        (error: Error) => textOf(error).includes(HOST.takes),
        `${place} ${text}`,
      );
    }
  }
});

/** A value of which every place makes the same, by the rule for it. */
const VALUES: readonly (readonly [
  rule: Rule<string>,
  fine: readonly string[],
  refused: readonly string[],
])[] = [
  [LOGIN, ["alice", "A.b_c@d+e-f", "..", "x".repeat(64)], ["", "a b", "a/b", "é", "x".repeat(65)]],
  [TAG, ["", "order 17", "日本語", "😀".repeat(255)], ["a\nb", "\u009f", "😀".repeat(256)]],
  [
    TASK_ID,
    ["01890a5d-ac96-774b-bcce-b302099a8057"],
    ["", "1", "01890a5dac96774bbcceb302099a8057"],
  ],
];

const SEARCH_WORDS = new Map([
  [LOGIN, ["account", "login"] as const],
  [TAG, ["tag", "tag"] as const],
  [TASK_ID, ["id", "id"] as const],
]);

test("a login, a tag and the id of a task are read the same in flags, queries, bodies and searches", () => {
  for (const [rule, fine, refused] of VALUES) {
    const [word, field] = SEARCH_WORDS.get(rule) ?? assert.fail();
    const places: readonly ((text: string) => unknown)[] = [
      (text) => readArguments([`--value=${text}`], { value: flag(rule, "") }).value,
      (text) => parseQuery(new URLSearchParams({ value: text }), { value: optional(rule) }).value,
      (text) => parseFields({ value: text }, { value: optional(rule) }).value,
      (text) => searchOf(`${word}:"${text}"`)[field],
    ];
    for (const read of places) {
      for (const text of fine) assert.equal(read(text), text);
      for (const text of refused) {
        assert.throws(
          () => read(text),
          (error: Error) => textOf(error).includes(rule.takes),
          text,
        );
      }
    }
  }
});

function hostOf({ flags, ...setup }: Setup): string {
  const verdict = load({ ...setup, flags: { ...flags, "insecure-http": true } });
  if (verdict.kind === "config") return verdict.config.host;
  throw new Error(verdict.problems.map(({ message }) => message).join("\n"));
}

function flagged(text: string): string {
  return readArguments([`--host=${text}`], { host: flag(HOST, "") }).host ?? "";
}

function queried(text: string): string {
  return parseQuery(new URLSearchParams({ host: text }), { host: optional(HOST) }).host ?? "";
}

function searched(text: string): string {
  return searchOf(`host:${text}`).host ?? "";
}

function searchOf(text: string): TaskSearch {
  const parsed = parseTaskSearch(text, 0);
  if ("search" in parsed) return parsed.search;
  throw new Error(parsed.problem);
}

/** What the one who wrote it is told. */
function textOf(error: Error): string {
  if (error instanceof StatusError) return JSON.stringify([error.message, error.details]);
  assert(error instanceof UsageError || error.constructor === Error, String(error));
  return error.message;
}
