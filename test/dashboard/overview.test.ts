import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";

import type { Page } from "playwright-core";

import type { TestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { areAtHand } from "../peers/peer-process.ts";
import {
  hasBrowser,
  mark,
  openPage,
  signIn,
  signInAsOperator,
  takeSteps,
  type Step,
} from "./browser.ts";

const HOSTILE_TAG = `<img src=x onerror=alert(1)> ${"\u202e"}gat`;

type Act = (page: Page, daemon: TestDaemon) => Promise<void>;

/** Opens the overview of an account whose three tasks were delivered a moment ago. */
function withOverview(act: Act): Step {
  return async (t, daemon) => {
    const { page } = await openPage(t, daemon.url);
    await signIn(page, daemon.account);
    await number(page, "Delivered").getByText("3 of 3").waitFor();
    await act(page, daemon);
  };
}

function number(page: Page, name: string) {
  return page.locator(".numbers a", { hasText: new RegExp(`^${name}`) });
}

function chart(page: Page, title: string) {
  return page.locator("figure", { has: page.getByRole("heading", { name: title }) });
}

/** The area of a chart without its axes. */
async function areaOf(page: Page, title: string) {
  const plot = chart(page, title).locator(".plot");
  await plot.scrollIntoViewIfNeeded();
  const box = await plot.locator(".plot-grid").boundingBox();
  assert(box !== null);
  return box;
}

test("the overview", async (t) => {
  const receiver = await startReceiver(t);
  await takeSteps(t, {
    async "has delivered tasks"(_, daemon) {
      const task = { tag: HOSTILE_TAG, postback_url: receiver.url("/") };
      await daemon.post([task, task, task]);
      await receiver.waitFor(3);
      await daemon.daemon.idle();
    },
    "each number links to its tasks": withOverview(async (page) => {
      const searches = await page.$$eval(".numbers a", (links) =>
        links.map((link) => new URL(link.href).searchParams.get("q")),
      );
      assert.deepEqual(searches, [
        ...["state:waiting", "state:running", "state:ready"],
        ...["delivery:delivered", "delivery:retrying", "delivery:given_up,refused"],
      ]);
    }),
    "dragging over a chart zooms all charts by the URL, and a reset zooms out": withOverview(
      async (page) => {
        const box = await areaOf(page, "Throughput per minute");
        const y = box.y + box.height / 2;
        await page.mouse.move(box.x + box.width * 0.5, y);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.75, y, { steps: 4 });
        const series = page.waitForResponse(/\/v1\/stats\/series\?from=[^&]+&to=/);
        await page.mouse.up();
        assert.equal((await series).status(), 200);
        const { searchParams } = new URL(page.url());
        const [from, to] = [searchParams.get("from"), searchParams.get("to")];
        const minutes = (Date.parse(to ?? "") - Date.parse(from ?? "")) / 60_000;
        assert(minutes >= 14 && minutes <= 16, `a quarter of an hour is ${minutes} minutes`);
        const link = await page
          .getByRole("link", { name: "Show tasks of this time" })
          .evaluate(searchOf);
        assert.equal(link, `after:${from} before:${to}`);
        await page.getByRole("button", { name: "Reset zoom" }).click();
        await chart(page, "Throughput per minute").locator(".plot").waitFor();
        assert.equal(new URL(page.url()).search, "");
      },
    ),
    "all charts show the values at the pointer until it leaves": withOverview(async (page) => {
      const told = page.locator(".chart figcaption .number");
      const before = await told.allTextContents();
      assert.equal(new Set(before).size, 1);
      const box = await areaOf(page, "Delivery success");
      await page.mouse.move(box.x + 1, box.y + box.height / 2);
      await page
        .locator(".plot-crosshair")
        .nth(before.length - 1)
        .waitFor({ state: "attached" });
      const pointed = await told.allTextContents();
      assert.equal(pointed.length, before.length);
      assert.equal(new Set(pointed).size, 1);
      assert.notEqual(pointed[0], before[0]);
      await page.mouse.move(box.x + 1, box.y - 60);
      await page.locator(".plot-crosshair").first().waitFor({ state: "detached" });
      assert.deepEqual(await told.allTextContents(), before);
    }),
    "a chart is read and zoomed by keyboard": withOverview(async (page) => {
      const throughput = chart(page, "Throughput per minute");
      const spoken = throughput.getByRole("status");
      await throughput.locator(".plot").focus();
      await page.keyboard.press("End");
      await spoken.getByText(/^\d\d:\d\d–\d\d:\d\d: Posted .*, Delivered /).waitFor();
      const newest = await spoken.textContent();
      await page.keyboard.press("ArrowLeft");
      assert.notEqual(await spoken.textContent(), newest);
      await page.keyboard.press("End");
      await page.keyboard.press("Enter");
      for (let i = 0; i < 9; i++) await page.keyboard.press("ArrowLeft");
      await page.locator(".plot-selection").waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Reset zoom" }).waitFor();
      const { searchParams } = new URL(page.url());
      const [from, to] = [searchParams.get("from"), searchParams.get("to")];
      assert.equal(Date.parse(to ?? "") - Date.parse(from ?? ""), 10 * 60_000);
      await chart(page, "Throughput per minute").locator(".plot").focus();
      await page.keyboard.press("Escape");
      assert.equal(new URL(page.url()).search, "");
    }),
    "a chart has a summary and a table": withOverview(async (page) => {
      const success = chart(page, "Delivery success");
      await success.getByRole("img", { name: /^Delivery success\. 100 % .*3 of 3/ }).waitFor();
      await success.getByRole("button", { name: "Delivery success as a table" }).click();
      assert.equal(await success.getByRole("columnheader").count(), 3);
      // Two, if a minute ended between the webhooks.
      await success.getByRole("row", { name: "100 % 100 %" }).first().waitFor();
    }),
    "the numbers change without a reload, and delayed tasks are counted apart": withOverview(
      async (page, daemon) => {
        await number(page, "Ready").getByText("3", { exact: true }).waitFor();
        await daemon.post([{}, {}]);
        await number(page, "Ready").getByText("5", { exact: true }).waitFor();
        // Delayed tasks do not wait.
        const later = { start_at: new Date(Date.now() + 3_600_000).toISOString() };
        await daemon.post([later, later, later]);
        const waiting = number(page, "Waiting");
        await waiting.getByText(/\b3\b/).waitFor();
        assert.equal(await waiting.locator("b").textContent(), "0");
      },
    ),
  });
});

function searchOf(link: { readonly href?: string }): string | null {
  return new URL(link.href ?? "").searchParams.get("q");
}

const SEVERAL_TYPES = `
[types.transcode]
runner = "worker"
[types.copy]
runner = "echo"
`;

test("an overview without any task", (t) =>
  takeSteps(
    t,
    {
      "keeps its form while the first task is refused, and shows a command that posts one": pastes,
    },
    { toml: SEVERAL_TYPES },
  ));

function panelOf(page: Page) {
  return page.getByRole("region", { name: /^No (?:accepted )?task yet$/ });
}

async function pastes(t: TestContext, daemon: TestDaemon): Promise<void> {
  if (!areAtHand(t, [{ program: "curl", debianPackage: "curl" }])) return;
  const { page } = await openPage(t, daemon.url);
  await signIn(page, daemon.account);
  const panel = panelOf(page);
  await panel.getByRole("button", { name: "New task…" }).waitFor();
  const isSame = await mark(page);
  await panel.getByRole("button", { name: "New task…" }).click();
  const dialog = page.getByRole("dialog");
  const url = dialog.getByLabel("Postback URL");
  await url.fill("http://10.0.0.7/hook");
  await dialog.locator("[type=submit]").click();
  await dialog.locator("[aria-invalid=true]").waitFor();
  await panel.locator("a[href^='/dashboard/tasks?']").waitFor();
  assert.equal(await url.inputValue(), "http://10.0.0.7/hook");
  await page.keyboard.press("Escape");

  const answer = await paste((await panel.locator("pre").textContent()) ?? "", daemon);

  assert.match(answer, /"status_code":20100/);
  assert.match(answer, /"type":"copy"/);
  await panel.waitFor({ state: "detached" });
  await isSame();
  await page.close();
}

/** Runs the command in a shell with the key. Returns its output. */
async function paste(command: string, { account }: TestDaemon): Promise<string> {
  const env = { ...process.env, KEY: account.key };
  const child = spawn("sh", ["-ec", command], { env, stdio: ["ignore", "pipe", "ignore"] });
  const out = text(child.stdout);
  await once(child, "close");
  return out;
}

test("an operator without accounts sees how to create one, and then how to post", async (t) => {
  if (!hasBrowser(t)) return;
  const program = startProgram(t, ["start", "--port", "0"]);
  const { url, db } = await program.ready;
  const { page } = await openPage(t, url);
  await signInAsOperator(page, { url, file: db });
  const panel = panelOf(page);
  await panel.getByRole("link", { name: "under Accounts" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "New task…" }).count(), 0);
  const command = (await panel.locator("pre").textContent()) ?? "";
  const [name, ...args] = command.split(" ");
  assert.deepEqual([name, args.at(-1)], ["postbackd", "LOGIN"]);

  const { code, stderr } = await runProgram(t, [...args.slice(0, -1), "ada"], { cwd: program.cwd });

  assert.equal(code, 0, stderr);
  await panel.getByRole("button", { name: "New task…" }).waitFor();
  await panel.getByText("one of the account's API keys").waitFor();
  await page.close();
});
