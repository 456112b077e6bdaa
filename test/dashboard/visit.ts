import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { Page } from "playwright-core";

import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";
import { createLink } from "../http/session-requests.ts";
import { hasBrowser, type TestPage } from "./browser.ts";

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
