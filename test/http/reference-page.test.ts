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

/** What of a page's markup belongs to one operation. */
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

test("the reference has every operation of the document with all that it takes and answers", async (t) => {
  const daemon = await startTestDaemon(t);
  const { document } = await fetchDocument(daemon);
  const page = await fetchPage(daemon);

  const operations = placedOperations(document);
  assert.ok(operations.length >= 50);
  for (const { operationId, method, path, parameters = [], responses } of operations) {
    const article = articleOf(page, operationId);
    const text = plain(article);
    const missing = [
      `${method.toUpperCase()} ${path}`,
      ...parameters.map(({ name }) => name),
      ...Object.values(responses).flatMap(({ description }) => description.match(/\d{5}/g) ?? []),
    ].filter((part) => !text.includes(part));
    assert.deepEqual(missing, [], operationId);
    const answers = [...article.matchAll(/<summary><b>(\d{3})<\/b>/g)].map(([, status]) => status);
    assert.deepEqual(answers, Object.keys(responses), operationId);
  }
});

test("the reference shows every example of the document, and every field of its schemas", async (t) => {
  const daemon = await startTestDaemon(t);
  const text = plain(await fetchPage(daemon));
  // The shape is what openapi.test.ts reads.
  const document = JSON.parse(
    await (await fetch(`${daemon.url}/openapi.json`)).text(),
  ) as ShownDocument;

  const examples = exampleValues(document, "");
  assert.ok(examples.length > 40);
  for (const value of examples) {
    assert.ok(text.includes(shownText(value)), shownText(value));
  }
  for (const [name, { properties = {} }] of Object.entries(document.components.schemas)) {
    const missing = Object.keys(properties).filter((field) => !text.includes(field));
    assert.deepEqual(missing, [], name);
  }
});

/** The values of all named examples, wherever they are. */
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

test("every link of the reference leads somewhere, and no two places have one name", async (t) => {
  const page = await fetchPage(await startTestDaemon(t));

  const places = [...page.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => id);
  assert.deepEqual(
    places.filter((id, at) => places.indexOf(id) !== at),
    [],
  );
  const links = [...page.matchAll(/\shref="([^"]*)"/g)].map(([, target = ""]) => target);
  const astray = links.filter((link) => link.startsWith("#") && !places.includes(link.slice(1)));
  assert.deepEqual(astray, []);
  const others = links.filter((link) => !link.startsWith("#"));
  assert.match(others.join(" "), /^data:, \/docs\/style-[0-9a-f]{12}\.css \/openapi\.json$/);
});

test("the reference needs no script, and no style but its own file", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "dashboard = false\n" });
  const page = await fetchPage(daemon);

  assert.doesNotMatch(page, /<(script|style|iframe|img|object|form|base)\b|\s(on\w+|style)=/i);
  const [, stylePath = ""] = /<link rel="stylesheet" href="([^"]+)">/.exec(page) ?? [];
  const style = await exchange(daemon.url, { target: stylePath });
  assert.equal(style.status, 200);
  assert.equal(headerOf(style, "content-type"), "text/css; charset=utf-8");
  assert.equal(headerOf(style, "cache-control"), "public, max-age=31536000, immutable");
  assert.doesNotMatch(style.body.toString(), /url\(|@import/);
  for (const target of ["/docs", stylePath]) {
    const response = await exchange(daemon.url, { target });
    const policy = headerOf(response, "content-security-policy") ?? "";
    assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.equal(headerOf(response, "x-content-type-options"), "nosniff");
  }
});

test("/docs is read only, and knows its own files alone", async (t) => {
  const { url } = await startTestDaemon(t);
  const statusOf = async (target: string, method = "GET") =>
    (await exchange(url, { target, method })).status;

  assert.equal(await statusOf("/docs", "HEAD"), 200);
  assert.equal(await statusOf("/docs", "POST"), 405);
  assert.equal(await statusOf("/docs/"), 308);
  for (const target of ["/docs/x", "/docs/style.css", "/docs/..%2fopenapi.json"]) {
    assert.equal(await statusOf(target), 404, target);
  }
});

const HOSTILE = `</code></title><script>alert(1)</script>"><img src=x onerror='alert(1)'>&amp;`;

/** The same document with hostile text in every string that is no keyword and no reference. */
function poisoned(value: unknown, key = ""): unknown {
  if (typeof value === "string") {
    return ["$ref", "in", "name", "operationId"].includes(key) ? value : `${value}${HOSTILE}`;
  }
  if (Array.isArray(value)) return value.map((each) => (key === "tags" ? each : poisoned(each)));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([name, each]) => [name, poisoned(each, name)]);
  return Object.fromEntries(entries);
}

test("whatever text is in the document, the reference shows it as text", async (t) => {
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

test("each command of the reference is one that the daemon understands", async (t) => {
  if (
    !areAtHand(
      t,
      ["bash", "curl"].map((program) => ({ program, debianPackage: program })),
    )
  )
    return;
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
    // What it names is not there, or no more; and nobody signs in with an example's key.
    const expected = security.length > 0 ? ["200", "404", "410"] : ["200", "401", "403"];
    assert.ok(expected.includes(statuses[at] ?? ""), `${operationId}: ${statuses[at]}`);
  }
});
