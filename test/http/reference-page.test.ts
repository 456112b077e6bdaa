import assert from "node:assert/strict";
import { test } from "node:test";

import { type ShownDocument, referencePieces } from "../../src/http/reference/page.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { exchange, headerOf } from "../helpers/raw-http.ts";
import { sessionName } from "../helpers/session-name.ts";
import { areAtHand } from "../peers/peer-process.ts";
import { fetchDocument, placedOperations } from "./api-document.ts";
import { createOperatorSession } from "./session-requests.ts";
import { createTestWorker } from "./worker-requests.ts";

async function fetchPage({ url }: Pick<TestDaemon, "url">): Promise<string> {
  const response = await fetch(`${url}/docs`);
  assert.equal(response.status, 200);
  return response.text();
}

/** The markup of one operation. */
function articleOf(page: string, id: string): string {
  const [, rest] = page.split(`<article id="${id}">`);
  assert.ok(rest !== undefined, `no article for ${id}`);
  return rest.split("</article>", 1).join("");
}

/** Text as a reader sees it. */
function plain(markup: string): string {
  return markup
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
}

test("the reference has every operation, example and field of the document, and working links", async (t) => {
  const daemon = await startTestDaemon(t);
  const { document } = await fetchDocument(daemon);
  const page = await fetchPage(daemon);

  const operations = placedOperations(document);
  assert.ok(operations.length >= 50);
  for (const { operationId, method, path, parameters = [], responses } of operations) {
    const article = articleOf(page, operationId);
    const parts = [
      `${method.toUpperCase()} ${path}`,
      ...parameters.map(({ name }) => name),
      ...Object.values(responses).flatMap(({ description }) => description.match(/\d{5}/g) ?? []),
    ];
    assertHas(plain(article), parts, operationId);
    const statuses = [...article.matchAll(/<summary><b>(\d{3})<\/b>/g)].map(([, status]) => status);
    assert.deepEqual(statuses, Object.keys(responses), operationId);
  }

  // The document as the page reads it.
  const shown = document as unknown as ShownDocument;
  const text = plain(page);
  const examples = exampleValues(shown, "");
  assert.ok(examples.length > 40);
  assertHas(text, examples.map(shownText), "examples");
  for (const [name, { properties = {} }] of Object.entries(shown.components.schemas)) {
    assertHas(text, Object.keys(properties), name);
  }

  const places = [...page.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id);
  assert.equal(new Set(places).size, places.length);
  const links = [...page.matchAll(/\shref="([^"]*)"/g)].map(([, target = ""]) => target);
  const inside = links.filter((link) => link.startsWith("#"));
  assertHas(
    places,
    inside.map((link) => link.slice(1)),
    "links",
  );
  const others = links.filter((link) => !link.startsWith("#"));
  assert.match(others.join(" "), /^data:, \/docs\/style-[0-9a-f]{12}\.css \/openapi\.json$/);
});

function assertHas(all: { includes(part: string): boolean }, parts: readonly string[], of: string) {
  const missing = parts.filter((part) => !all.includes(part));
  assert.deepEqual(missing, [], of);
}

/** The values of all named examples, at any depth. */
function exampleValues(node: unknown, key: string): readonly unknown[] {
  if (typeof node !== "object" || node === null) return [];
  const inside = Object.entries(node).flatMap(([name, value]) => exampleValues(value, name));
  if (key !== "examples" || Array.isArray(node)) return inside;
  const named: readonly unknown[] = Object.values(node);
  return [...inside, ...named.flatMap(valueOf)];
}

function valueOf(example: unknown): readonly unknown[] {
  const isHere = typeof example === "object" && example !== null && "value" in example;
  return isHere ? [example.value] : [];
}

function shownText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

test("the reference is read only, needs no script and has one style file, without the dashboard too", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "dashboard = false\n" });
  const page = await fetchPage(daemon);

  assert.doesNotMatch(page, /<(script|style|iframe|img|object|form|base)\b|\s(on\w+|style)=/i);
  const [, stylePath = ""] = /<link rel="stylesheet" href="([^"]+)">/.exec(page) ?? [];
  const style = await exchange(daemon.url, { target: stylePath });
  assert.equal(headerOf(style, "content-type"), "text/css; charset=utf-8");
  assert.equal(headerOf(style, "cache-control"), "public, max-age=31536000, immutable");
  assert.doesNotMatch(style.body.toString(), /url\(|@import/);
  for (const [status, target, method = "GET"] of [
    [200, "/docs"],
    [200, stylePath],
    [200, "/docs", "HEAD"],
    [405, "/docs", "POST"],
    [308, "/docs/"],
    [404, "/docs/x"],
    [404, "/docs/style.css"],
    [404, "/docs/..%2fopenapi.json"],
  ] as const) {
    const response = await exchange(daemon.url, { target, method });
    assert.equal(response.status, status, `${method} ${target}`);
    if (status !== 200) continue;
    const policy = headerOf(response, "content-security-policy") ?? "";
    assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.equal(headerOf(response, "x-content-type-options"), "nosniff");
  }
});

const HOSTILE = `</code></title><script>alert(1)</script>"><img src=x onerror='alert(1)'>&amp;`;

/** The document with hostile text in every string except keywords and references. */
function poisoned(value: unknown, key = ""): unknown {
  if (typeof value === "string") {
    return ["$ref", "in", "name", "operationId"].includes(key) ? value : `${value}${HOSTILE}`;
  }
  if (Array.isArray(value)) return value.map((each) => (key === "tags" ? each : poisoned(each)));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, each]) => [name, poisoned(each, name)]);
  return Object.fromEntries(entries);
}

test("the reference escapes every text of the document", async (t) => {
  const daemon = await startTestDaemon(t);
  const document: unknown = await (await fetch(`${daemon.url}/openapi.json`)).json();
  // Only texts differ from what the daemon serves.
  const shown = poisoned(document) as ShownDocument;
  const page = [...referencePieces(shown, "/docs/style.css")].join("");

  assert.doesNotMatch(page, /<(script|img)/);
  assert.equal(page.match(/<\/title>/g)?.length, 1);
  assert.ok(plain(page).split(HOSTILE).length > 500);
  for (const [tag] of page.matchAll(/<[a-z][^>]*>/g)) {
    assert.match(tag, /^<[a-z0-9]+( [a-z-]+="[^"<>]*")*>$/);
  }
});

test("the daemon accepts every command of the reference", async (t) => {
  const programs = ["bash", "curl"].map((program) => ({ program, debianPackage: program }));
  if (!areAtHand(t, programs)) return;
  const metrics = "0123456789abcdef".repeat(2);
  const types = '[types.echo]\nrunner = "echo"\n[types.thumbnail]\nrunner = "worker"\n';
  const toml = `metrics.token = "${metrics}"\n${types}`;
  const daemon = await startTestDaemon(t, { toml });
  const operations = placedOperations((await fetchDocument(daemon)).document);
  const page = await fetchPage(daemon);
  // A stream has no end.
  const asked = operations.filter(({ path }) => path !== "/v1/events");
  const commands = asked.map(({ operationId }) => {
    const article = articleOf(page, operationId);
    const [, command = ""] = /<pre><code>(curl .*?)<\/code><\/pre>/s.exec(article) ?? [];
    return plain(command).replace("curl", "curl -sS -o answer -w '%{http_code}\\n'");
  });
  const env = {
    URL: daemon.url,
    KEY: daemon.account.key,
    TOKEN: await createTestWorker(daemon.file, ["thumbnail"]),
    METRICS_TOKEN: metrics,
    COOKIE: `${sessionName(daemon.url)}=${await createOperatorSession(daemon.file)}`,
  };
  const cwd = temporaryFolder(t);
  const command = ["bash", "-euc", commands.join("\n")] as const;
  const shell = startProgram(t, [], { command, cwd, env });

  assert.equal((await shell.exit).code, 0, shell.stderr);
  const statuses = shell.stdout.trim().split("\n");
  assert.equal(statuses.length, asked.length);
  for (const [at, { operationId, security }] of asked.entries()) {
    // The tasks and keys of examples do not exist.
    const expected = security.length > 0 ? ["200", "404", "410"] : ["200", "401", "403"];
    assert.ok(expected.includes(statuses[at] ?? ""), `${operationId}: ${statuses[at]}`);
  }
});
