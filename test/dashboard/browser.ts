import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, after } from "node:test";

import { type Browser, type BrowserContext, type Page, chromium } from "playwright-core";

import {
  type TestAccount,
  type TestDaemon,
  type TestDaemonOptions,
  afterwards,
  startTestDaemon,
} from "../helpers/daemon.ts";
import { createLink } from "../http/session-requests.ts";
import { areAtHand, findProgram } from "../peers/peer-process.ts";

const CHROMIUM = { program: "chromium", debianPackage: "chromium" };

const APPEARS_MS_MAX = 30_000;

export type Theme = "light" | "dark";

export interface PageOptions {
  readonly theme?: Theme;
  /** In CSS pixels; by default 1280 × 900. */
  readonly size?: { readonly width: number; readonly height: number };
  /** By default UTC. */
  readonly timeZone?: string;
}

/** A page of a new browser profile. */
export interface TestPage {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Console errors, exceptions, and requests to other origins. */
  readonly complaints: string[];
}

let browser: Promise<Browser> | null = null;

after(async () => {
  await (await browser)?.close();
});

/** Returns whether Chromium is installed; otherwise skips the test. */
export function hasBrowser(t: TestContext): boolean {
  return areAtHand(t, [CHROMIUM]);
}

/** Opens a page in a new profile. It is closed after the test, which fails if the page has complaints. */
export async function openPage(
  t: TestContext,
  origin: string,
  options: PageOptions = {},
): Promise<TestPage> {
  const { theme = "light", size = { width: 1280, height: 900 }, timeZone = "UTC" } = options;
  browser ??= launch();
  const context = await (
    await browser
  ).newContext({
    baseURL: origin,
    colorScheme: theme,
    viewport: size,
    locale: "en-GB",
    timezoneId: timeZone,
    reducedMotion: "reduce",
  });
  // Shorter than the time-out of the test runner, whose message is less exact.
  context.setDefaultTimeout(APPEARS_MS_MAX);
  const page = await context.newPage();
  const complaints = complaintsOf(page, origin);
  // Before the daemon stops.
  afterwards(t, () => context.close());
  t.after(() => assert.deepEqual(complaints, [], "the page complained"));
  return { page, context, complaints };
}

async function launch(): Promise<Browser> {
  const executablePath = findProgram(CHROMIUM.program);
  assert(executablePath !== null);
  return chromium.launch({
    executablePath,
    // Root has no sandbox, and the browser's own requests resolve no host.
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    ],
  });
}

function complaintsOf(page: Page, origin: string): string[] {
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  page.on("console", (message) => {
    const isComplaint = message.type() === "error" || message.type() === "warning";
    if (isComplaint) complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    const isOurs =
      url.startsWith(`${origin}/`) || url.startsWith("data:") || url.startsWith("blob:");
    if (!isOurs) complaints.push(`a request to ${url}`);
  });
  return complaints;
}

/** Signs an account in by the form. */
export async function signIn(page: Page, { login, key }: TestAccount): Promise<void> {
  await page.goto("/dashboard/");
  await page.getByLabel("Login").fill(login);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

const require = createRequire(import.meta.url);

/** The violations that axe-core finds in the page, or in a part of it. */
export async function accessProblems(page: Page, part = "html"): Promise<readonly string[]> {
  const isThere = await page.evaluate("typeof axe === 'object'");
  // By the browser's protocol: the page's policy refuses foreign scripts.
  if (isThere !== true) {
    await page.evaluate(readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  }
  const found: unknown = await page.evaluate(
    `axe.run(${JSON.stringify(part)}, { resultTypes: ["violations"] }).then(({ violations }) =>
      violations.flatMap(({ id, help, nodes }) =>
        nodes.map((node) => id + ": " + help + ": " + node.target.join(" ") + " " + (node.failureSummary ?? ""))))`,
  );
  assert(Array.isArray(found));
  return found.map(String);
}

const SCREENSHOTS = process.env["POSTBACKD_SCREENSHOTS"] ?? join(tmpdir(), "postbackd-screenshots");

/** Saves a picture of the entire page. */
export async function takeScreenshot(page: Page, name: string): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}

/** One of several tests that share a daemon. */
export type Step = (t: TestContext, daemon: TestDaemon) => Promise<void>;

/** Runs steps as tests of one daemon, in order. Skips all without a browser. */
export async function takeSteps(
  t: TestContext,
  steps: Readonly<Record<string, Step>>,
  options: TestDaemonOptions = {},
): Promise<void> {
  if (!hasBrowser(t)) return;
  const daemon = await startTestDaemon(t, options);
  for (const [name, step] of Object.entries(steps)) {
    await t.test(name, (part) => step(part, daemon));
  }
}

/** Signs the operator in by a link. */
export async function signInAsOperator(
  page: Page,
  { url, file }: Pick<TestDaemon, "url" | "file">,
  now = Date.now(),
): Promise<void> {
  await page.goto(`${url}/dashboard/#link=${await createLink(file, now + 60_000)}`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
}

/** Opens a screen by the navigation, without a reload. */
export async function goTo(page: Page, name: string): Promise<void> {
  const screens = page.getByRole("navigation", { name: "Screens" });
  await screens.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}

/** Accepts the complaints so far, which must match. */
export function forgive({ complaints }: TestPage, expected: RegExp): void {
  for (const complaint of complaints.splice(0)) assert.match(complaint, expected);
}

/** The browser's complaint about a request without a session. */
export const REFUSED = /status of 401/;

/** Marks the page. The returned function asserts that it was not reloaded. */
export async function mark(page: Page): Promise<() => Promise<void>> {
  await page.evaluate("globalThis.isMarked = true");
  return async () => assert.equal(await page.evaluate("globalThis.isMarked"), true, "reloaded");
}

/** Asserts that the page reports the end of its session, and shows the form alone. */
export async function assertEnded(page: Page): Promise<void> {
  const note = page.getByRole("alert").filter({ hasText: "Your session has ended" });
  await note.waitFor();
  await page.getByLabel("API key").waitFor();
  assert.equal(await page.getByRole("navigation").count(), 0);
}
