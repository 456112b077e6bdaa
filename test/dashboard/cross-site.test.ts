import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test, type TestContext } from "node:test";

import type { BrowserContext, Page } from "playwright-core";

import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { closeServer, listen } from "../helpers/receiver.ts";
import { hasBrowser, openPage, signIn } from "./browser.ts";

/** A foreign page in a browser that is signed in. */
interface Attack {
  readonly page: Page;
  readonly url: string;
  readonly taskId: string;
}

// Cookies ignore ports, so they are sent to the first site and not to the second.
const SITES = ["127.0.0.1", "localhost"] as const;

test("a page on another port changes nothing and reads nothing", async (t) => {
  if (!hasBrowser(t)) return;
  const daemon = await startTestDaemon(t);
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const { tasks } = await daemon.post([{ tag: "secret-tag", start_at: later }]);
  const port = await servePage(t);
  const { page, context } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const before = await stateOf(daemon);
  for (const site of SITES) {
    for (const [name, attack] of Object.entries(ATTACKS)) {
      await t.test(`${site}: ${name}`, async () => {
        const foreign = await openForeign(context, `http://${site}:${port}/`);
        await attack({ page: foreign, url: daemon.url, taskId: tasks[0]?.id ?? "" });
        await foreign.close();
        assert.equal(await stateOf(daemon), before);
      });
    }
  }
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
});

/** Serves an empty page. */
async function servePage(t: TestContext): Promise<number> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><p>Hello");
  });
  t.after(() => {
    server.closeAllConnections();
    return closeServer(server);
  });
  return listen(server, { host: "127.0.0.1", port: 0 });
}

async function openForeign(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(url);
  return page;
}

/** The keys and tasks. */
async function stateOf(daemon: TestDaemon): Promise<string> {
  const keys = await daemon.call("/v1/appendix/user_data");
  const tasks = await daemon.call("/v1/tasks/search");
  const text = `${await keys.text()} ${await tasks.text()}`;
  return text.replaceAll(/"last_used_at":[^,}]*/g, "");
}

const ATTACKS: Readonly<Record<string, (attack: Attack) => Promise<void>>> = {
  "by fetch with the cookie, with and without the headers of the dashboard": byFetch,
  "by a form that posts": byForm,
  "by an image or a script of the API": byElement,
  "by a frame of the dashboard": byFrame,
  "by a window that it opens": byWindow,
};

async function byFetch({ page, url, taskId }: Attack): Promise<void> {
  const statuses = watchStatuses(page, url);
  const tries = [
    ["GET", "/v1/appendix/user_data", "cors", "{}"],
    ["GET", "/v1/tasks/search", "no-cors", "{}"],
    ["GET", "/v1/session", "cors", "{}"],
    ["GET", "/v1/events", "no-cors", "{}"],
    ["POST", "/v1/appendix/keys", "no-cors", "{}"],
    ["POST", `/v1/tasks/task_cancel/${taskId}`, "no-cors", "{}"],
    ["POST", "/v1/tasks/task_post", "no-cors", "{}"],
    ["POST", "/v1/appendix/keys", "cors", '{"X-Requested-With":"postbackd"}'],
    ["DELETE", "/v1/session", "cors", '{"X-Requested-With":"postbackd"}'],
  ];
  for (const [method, path, mode, headers] of tries) {
    const body = method === "POST" ? `, body: '{"label":"mine"}'` : "";
    const read: unknown = await page.evaluate(`
      fetch(${JSON.stringify(url + path)}, {
        method: "${method}", credentials: "include", mode: "${mode}", headers: ${headers}${body}
      }).then(async (response) => response.type + " " + (await response.text()), () => "refused")`);
    const isRead = read !== "refused" && read !== "opaque ";
    assert(!isRead, `${method} ${path}: ${String(read)}`);
  }
  // The browser does not report requests that it blocks.
  assertRefused(statuses, 5);
}

/** Collects the statuses of the daemon's responses to a page. */
function watchStatuses(page: Page, url: string): number[] {
  const statuses: number[] = [];
  page.on("response", (response) => {
    if (response.url().startsWith(url)) statuses.push(response.status());
  });
  return statuses;
}

function assertRefused(statuses: readonly number[], countMin: number): void {
  assert(statuses.length >= countMin, `${statuses.length} responses`);
  for (const status of statuses) assert([401, 403, 404, 405].includes(status), String(statuses));
}

async function byForm({ page, url, taskId }: Attack): Promise<void> {
  for (const path of [`/v1/tasks/task_cancel/${taskId}`, "/v1/appendix/keys", "/v1/session"]) {
    const other = await openForeign(page.context(), page.url());
    const response = other.waitForResponse((each) => each.url() === url + path);
    await other.evaluate(`
      document.body.innerHTML = '<form method="post" enctype="text/plain"><input name="{&quot;a">';
      document.forms[0].action = ${JSON.stringify(url + path)};
      setTimeout(() => document.forms[0].submit());`);
    assertRefused([(await response).status()], 1);
  }
}

async function byElement({ page, url }: Attack): Promise<void> {
  for (const name of ["img", "script", "link", "video"]) {
    const outcome: unknown = await page.evaluate(`new Promise((resolve) => {
      const element = document.createElement("${name}");
      element.onload = () => resolve("loaded");
      element.onloadeddata = () => resolve("loaded");
      element.onerror = () => resolve("refused");
      element.rel = "stylesheet";
      element.href = element.src = ${JSON.stringify(`${url}/v1/tasks/search`)};
      document.body.append(element);
    })`);
    assert.equal(outcome, "refused", name);
  }
}

async function byFrame({ page, url }: Attack): Promise<void> {
  for (const path of ["/dashboard/", "/dashboard/tasks", "/v1/tasks/search"]) {
    const frame: unknown = await page.evaluate(`new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.onload = () => resolve("loaded");
      frame.src = ${JSON.stringify(url + path)};
      document.body.append(frame);
    })`);
    assert.equal(frame, "loaded");
    const texts = await Promise.all(
      page.frames().map(async (each) => (await each.content()).includes("secret-tag")),
    );
    assert(!texts.includes(true), path);
    const shown = page.frames().filter((each) => each.url().startsWith(`${url}/dashboard`));
    for (const each of shown) assert.equal(await each.getByRole("heading").count(), 0, path);
  }
}

async function byWindow({ page, url }: Attack): Promise<void> {
  const opened = page.waitForEvent("popup");
  await page.evaluate(`void (globalThis.other = open(${JSON.stringify(`${url}/dashboard/`)}))`);
  const popup = await opened;
  await popup.waitForLoadState();
  const seen: unknown = await page.evaluate(`(() => {
    try { return String(other.document.body.textContent); } catch { return "refused"; }
  })()`);
  assert.equal(seen, "refused");
  // The dashboard isolates its window.
  await page.waitForFunction("other.closed");
  assert.equal(await popup.evaluate("opener"), null);
  await popup.close();
}
