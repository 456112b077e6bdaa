import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import {
  ANY_TASK,
  formatTaskSearch,
  parseTaskSearch,
  SEARCHED_DELIVERIES,
  SEARCHED_STATES,
  type TaskSearch,
} from "../../src/domain/task/task-search.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const UUID = "01890a5d-ac96-774b-bcce-b302099a8057";

function searchOf(text: string): Partial<TaskSearch> {
  const parsed = parseTaskSearch(text, NOW);
  assert("search" in parsed, "problem" in parsed ? parsed.problem : "");
  const fields = Object.entries(parsed.search);
  return Object.fromEntries(fields.filter(([, value]) => value !== null));
}

function problemOf(text: string): string {
  const parsed = parseTaskSearch(text, NOW);
  assert("problem" in parsed, `${text} was read as ${JSON.stringify(parsed)}`);
  return parsed.problem;
}

/** Always the same numbers in [0, 1), so that a failure comes again. */
function newRandom(): () => number {
  let seed = 42;
  return () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    return seed / 2 ** 32;
  };
}

const READ: readonly (readonly [text: string, search: Partial<TaskSearch>])[] = [
  ["", {}],
  [" \t\n\u00a0\u2003 ", {}],
  ["state:queued", { states: ["queued"] }],
  ["STATE:Failed,ready,failed", { states: ["failed", "ready"] }],
  ["delivery:given_up,refused", { deliveries: ["given_up", "refused"] }],
  ["delivery:retrying", { deliveries: ["retrying"] }],
  ["type:resize tag:order-7", { type: "resize", tag: "order-7" }],
  ['tag:"a b"', { tag: "a b" }],
  ['tag:"a \\"b\\" \\\\ c"', { tag: 'a "b" \\ c' }],
  ['tag:""', { tag: "" }],
  ["order-7", { tag: "order-7" }],
  ['"two words"', { tag: "two words" }],
  ['"state:queued"', { tag: "state:queued" }],
  ["tag:state:queued", { tag: "state:queued" }],
  ["tag:a\\b", { tag: "a\\b" }],
  [UUID, { id: UUID }],
  [`id:${UUID.toUpperCase()}`, { id: UUID }],
  [`tag:${UUID}`, { tag: UUID }],
  ["host:Hooks.Example.COM", { host: "hooks.example.com" }],
  ["host:bücher.example", { host: "xn--bcher-kva.example" }],
  ["host:[2001:DB8::1]", { host: "2001:db8::1" }],
  ["host:2001:db8::1", { host: "2001:db8::1" }],
  ["account:Alice@example", { login: "Alice@example" }],
  ["code:50010", { code: 50_010 }],
  ["after:2h", { createdAfter: NOW - 2 * HOUR_MS }],
  ["before:30m", { createdBefore: NOW - HOUR_MS / 2 }],
  ["after:7d before:90s", { createdAfter: NOW - 168 * HOUR_MS, createdBefore: NOW - 90_000 }],
  ["after:1w", { createdAfter: NOW - 168 * HOUR_MS }],
  ["after:2030-01-31T10:00:00+02:00", { createdAfter: NOW - HOUR_MS }],
  ["after:2030-01-31", { createdAfter: NOW - 9 * HOUR_MS }],
  ["日本語", { tag: "日本語" }],
  ["__proto__", { tag: "__proto__" }],
];

test("each word is read as what it names, and a bare one as an id or a tag", () => {
  for (const [text, search] of READ) assert.deepEqual(searchOf(text), search, text);
});

test("what cannot be read is told with the word and what is known", () => {
  assert.match(problemOf("state:done"), /'state:done'.*queued, running, .*ready/);
  assert.match(problemOf("delivery:lost"), /'delivery:lost'.*given_up/);
  assert.match(problemOf("colour:red"), /'colour' is not known; known are id, .*tag:colour:red/);
  assert.match(problemOf("__proto__:x"), /'__proto__' is not known/);
  assert.match(problemOf("constructor:x"), /'constructor' is not known/);
  assert.match(problemOf("http://x/"), /tag:http:/);
  for (const text of ["state:", "state:,", "state:queued,", "state:queued,,failed"]) {
    assert.match(problemOf(text), /it takes queued/, text);
  }
  for (const text of ["code:5001", "code:500100", "code:-5001", "code:5001x", "code:٥٠٠١٠"]) {
    assert.match(problemOf(text), /five digits/, text);
  }
  for (const text of ["after:", "after:2", "after:2y", "after:-2h", "before:tomorrow"]) {
    assert.match(problemOf(text), /RFC 3339/, text);
  }
  for (const text of ["after:9999999h", "after:2030-02-30", "after:999999w", "after:1e3h"]) {
    assert.match(problemOf(text), /RFC 3339/, text);
  }
  assert.match(problemOf(`id:${UUID}0`), /a UUID/);
  for (const text of [
    "account:",
    "account:a/b",
    "type:",
    `tag:${"x".repeat(256)}`,
    "a\u0007",
    "host:",
    "host:a.example:80",
  ])
    assert.match(problemOf(text), /it takes/, text);
});

test("a word that comes twice is a problem, also where it is bare", () => {
  assert.match(problemOf("state:queued state:failed"), /'state:failed'.*commas/);
  assert.match(problemOf("two words"), /'words'.*one tag.*quotes/);
  assert.match(problemOf(`${UUID} id:${UUID}`), /twice/);
  assert.match(problemOf("after:1h after:2h"), /twice/);
});

test("quotes that are not closed, or do not hold the whole value, are a problem", () => {
  for (const text of ['"', 'tag:"a', 'tag:"a"b', 'tag:a"b"', '"a"b c"', 'tag:"a\\"', '""""']) {
    assert.match(problemOf(text), /quotes/, text);
  }
});

const HOSTS = ["hooks.example.com", "xn--bcher-kva.example", "127.0.0.1", "::1", "2001:db8::1"];

const LOGINS = ["alice", "Alice@example", "a+b-c.d_e", "..", "x".repeat(64)];

test("what was written is read again as the same search, at any time", () => {
  const random = newRandom();
  const pick = <Item>(items: readonly Item[]): Item => {
    const item = items[Math.floor(random() * items.length)];
    assert(item !== undefined);
    return item;
  };
  const some = <Item>(items: readonly Item[]): readonly Item[] | null => {
    const chosen = items.filter(() => random() < 0.3);
    return chosen.length === 0 ? null : chosen;
  };
  const text = (): string => pick([pick(NAUGHTY), pick(NAUGHTY) + pick(NAUGHTY)]);
  const maybe = <Value>(make: () => Value): Value | null => (random() < 0.4 ? make() : null);
  for (let i = 0; i < 5000; i++) {
    const search: TaskSearch = {
      id: maybe(() => UUID),
      login: maybe(() => pick(LOGINS)),
      states: some(SEARCHED_STATES),
      deliveries: some(SEARCHED_DELIVERIES),
      type: maybe(() => text() || "x"),
      tag: maybe(() => [...text().replaceAll(/\p{Cc}/gu, " ")].slice(0, 255).join("")),
      host: maybe(() => pick(HOSTS)),
      code: maybe(() => 10_000 + Math.floor(random() * 90_000)),
      createdAfter: maybe(() => Math.floor(random() * NOW)),
      createdBefore: maybe(() => Math.floor(random() * NOW)),
    };
    const written = formatTaskSearch(search);
    assert.deepEqual(parseTaskSearch(written, i), { search }, written);
  }
});

test("any text is read or is a problem of one line, and what is read is written as a fixed point", () => {
  const random = newRandom();
  const parts = ["state:", "tag:", '"', "\\", ",", "queued", " ", ":", "after:2h", "x", ...NAUGHTY];
  for (let i = 0; i < 20_000; i++) {
    const length = 1 + Math.floor(random() * 6);
    const text = Array.from({ length }, () => parts[Math.floor(random() * parts.length)]).join("");
    const parsed = parseTaskSearch(text, NOW);
    if ("problem" in parsed) {
      assert.ok(parsed.problem.isWellFormed() && parsed.problem.length < 600, parsed.problem);
      continue;
    }
    const written = formatTaskSearch(parsed.search);
    assert.deepEqual(parseTaskSearch(written, 0), parsed, text);
    const again = parseTaskSearch(written, 0);
    assert.equal("search" in again ? formatTaskSearch(again.search) : null, written);
  }
});

test("nothing is written of a search for everything", () => {
  assert.equal(formatTaskSearch(ANY_TASK), "");
  assert.equal(
    formatTaskSearch({ ...ANY_TASK, states: ["ready", "queued"], tag: "a b" }),
    'state:queued,ready tag:"a b"',
  );
});

// It is part of the dashboard's page, where there is no Node.
test("nothing of Node is needed to read or write a search", () => {
  const names = [
    ...["task/task-search", "task/task", "account/account", "address/host-name"],
    ...["clock/time", "clock/duration", "rule", "text"],
  ];
  const files = names.map((name) => new URL(`../../src/domain/${name}.ts`, import.meta.url));
  for (const file of files) {
    const source = readFileSync(file, "utf8");
    assert.doesNotMatch(source, /node:|Buffer|process\./);
    const values = [...source.matchAll(/^import (?!type).*from "(.*)";$/gm)].map(
      ([, from]) => from,
    );
    assert.ok(
      values.every((from = "") => files.some(({ href }) => href === new URL(from, file).href)),
    );
  }
});

// Big List of Naughty Strings, see test/fixtures/http/README.md; tags hold no control characters and are well-formed.
const NAUGHTY = naughtyStrings();

function naughtyStrings(): readonly string[] {
  const file = new URL("../fixtures/http/blns.json", import.meta.url);
  const texts: unknown = JSON.parse(readFileSync(file, "utf8"));
  assert(Array.isArray(texts));
  return texts.filter((text) => typeof text === "string" && text.isWellFormed());
}
