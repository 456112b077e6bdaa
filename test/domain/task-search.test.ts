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

/** The same numbers in [0, 1) at each run. */
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

test("each word is parsed by its name, and a word without a name as an id or a tag", () => {
  for (const [text, search] of READ) assert.deepEqual(searchOf(text), search, text);
});

const HOSTS = ["hooks.example.com", "xn--bcher-kva.example", "127.0.0.1", "::1", "2001:db8::1"];

const LOGINS = ["alice", "Alice@example", "a+b-c.d_e", "..", "x".repeat(64)];

test("a formatted search is parsed as the same search, at any time", () => {
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

test("any text is a search or a short problem, and a formatted search stays the same", () => {
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

test("a search for everything is formatted as empty text", () => {
  assert.equal(formatTaskSearch(ANY_TASK), "");
  assert.equal(
    formatTaskSearch({ ...ANY_TASK, states: ["ready", "queued"], tag: "a b" }),
    'state:queued,ready tag:"a b"',
  );
});

// The dashboard's page includes these files, without Node.js.
test("a search needs no module of Node.js", () => {
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

// Big List of Naughty Strings, see test/fixtures/README.md; tags hold no control characters and are well-formed.
const NAUGHTY = naughtyStrings();

function naughtyStrings(): readonly string[] {
  const file = new URL("../fixtures/http/blns.json", import.meta.url);
  const texts: unknown = JSON.parse(readFileSync(file, "utf8"));
  assert(Array.isArray(texts));
  return texts.filter((text) => typeof text === "string" && text.isWellFormed());
}
